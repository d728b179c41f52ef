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
    LedgerError,
    NoRoom,
    NotEvictable,
    OutOfPages,
    RequestEnded,
    StaleHandle,
    TooManyRequests,
    UnbalancedUnlock,
)
from kvgpu.mha_pool import MHAKVCache, TPInfo
from kvgpu.naive_manager import NaiveCacheManager
from kvgpu.page_table import PageTable, StepInput
from kvgpu.radix_manager import RadixCacheHandle, RadixCacheManager
from kvgpu.request import Request, RequestState
from kvgpu.requests import RequestManager

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
    "LedgerError",
    "MHAKVCache",
    "NaiveCacheManager",
    "NoRoom",
    "NotEvictable",
    "OutOfPages",
    "PageAllocator",
    "PageTable",
    "RadixCacheHandle",
    "RadixCacheManager",
    "Request",
    "RequestEnded",
    "RequestManager",
    "RequestState",
    "SizeInfo",
    "StaleHandle",
    "StepInput",
    "TPInfo",
    "TooManyRequests",
    "UnbalancedUnlock",
]
