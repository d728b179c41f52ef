"""KV-cache management for LLM serving in torch and Triton: paged storage, prefix sharing."""

from kvgpu.allocator import PageAllocator
from kvgpu.base import BaseCacheHandle, BaseCacheManager, BaseKVCache, KVCacheLayout, SizeInfo
from kvgpu.errors import (
    CacheInUse,
    EvictionUnsupported,
    ForeignHandle,
    IntegrityError,
    InvalidIndex,
    InvalidType,
    InvalidValue,
    KVCacheError,
    NotEvictable,
    OutOfPages,
    StaleHandle,
    UnbalancedUnlock,
)
from kvgpu.mha_pool import MHAKVCache, TPInfo
from kvgpu.naive_manager import NaiveCacheManager
from kvgpu.radix_manager import RadixCacheHandle, RadixCacheManager

__all__ = [
    "BaseCacheHandle",
    "BaseCacheManager",
    "BaseKVCache",
    "CacheInUse",
    "EvictionUnsupported",
    "ForeignHandle",
    "IntegrityError",
    "InvalidIndex",
    "InvalidType",
    "InvalidValue",
    "KVCacheError",
    "KVCacheLayout",
    "MHAKVCache",
    "NaiveCacheManager",
    "NotEvictable",
    "OutOfPages",
    "PageAllocator",
    "RadixCacheHandle",
    "RadixCacheManager",
    "SizeInfo",
    "StaleHandle",
    "TPInfo",
    "UnbalancedUnlock",
]
