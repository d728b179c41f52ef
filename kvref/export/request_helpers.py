"""What a program on whole requests begins with: how all is built, and what its lines call."""

from __future__ import annotations

from collections.abc import Iterator

from kvref.export.text import ManagerName
from kvref.operations import tensor_functions
from kvref.requests.configuration import RequestConfiguration
from kvref.requests.promises import RequestPromises

__all__ = ["helpers"]

_JUNK = "-(2**31) + 7"  # as the bridge has it: no token and no slot of any program

_BUFFERS = '''\
def kept(tensor):
    buffers.append(tensor)
    return tensor

{ids}

def overwrite():
    """Buffers are the caller's, who uses them for something else after the call."""
    for tensor in buffers:
        tensor.fill_(JUNK)
    buffers.clear()

def values(array):
    """The slots in an array that came back; it is the caller's too."""
    slots = array.tolist()
    array.fill(JUNK)
    return slots
'''

_CONTENT = '''\
def names(tokens, namespace=None):
    """A number for each token: for it and all tokens before it, in that namespace."""
    found, last = [], namespace
    for token in tokens:
        last = numbers.setdefault((last, token), len(numbers))
        found.append(last)
    return found

def rows(named, layer):
    """K and V for these numbers, `[n, heads, dim]` each: every row says the number, the layer,
    the head, and whether it is K or V, by digits that the dtype holds exactly."""
    k_and_v = []
    for kind in (0, 1):
        codes = [
            [((number * 2 + kind) * LAYERS + layer) * HEADS + head + 1 for head in range(HEADS)]
            for number in named
        ]
        k_and_v.append(torch.tensor([[digits(code) for code in row] for row in codes]).to(DTYPE))
    return k_and_v

def digits(code):
    return [code // BASE ** (at % DIGITS) % BASE for at in range(DIM)]

def store(request, named, on_device=False):
    """As an engine does it: K and V of all tokens that have slots and none yet, on each layer."""
    if on_device:  # as a kernel is told where to
        slots = requests.upload([request]).out_loc
    else:
        slots = torch.as_tensor(request.out_loc)
    assert len(slots) == len(named)
    if named:
        for layer in range(LAYERS):
            k, v = rows(named, layer)
            kv_cache.store_kv(k, v, slots, layer)
            k.zero_()
            v.zero_()
        slots.fill_(-1)
    request.mark_stored()

def read(slots):
    """The number that all rows of each slot say, or None where they say none, or several."""
    found = []
    for slot in slots:
        page, place = divmod(slot, PAGE_SIZE)
        first = kv_cache.k_cache(0)[page, place, 0].double().tolist()
        code = sum(int(digit) * BASE**at for at, digit in enumerate(first[:DIGITS]))
        number = (code - 1) // (2 * LAYERS * HEADS)
        right = all(
            torch.equal(view(layer)[page, place].double(), row[0].double())
            for layer in range(LAYERS)
            for view, row in zip((kv_cache.k_cache, kv_cache.v_cache), rows([number], layer))
        )
        found.append(number if right else None)
    return found
'''

_POOL = '''\
def pool():
    """Slots of the cache that are evictable, and protected, and pages that are free."""
    return (*cache.size_info, requests.num_free_pages)

def assert_given(row, start, end, taken=()):
    """The slots of a request from `start` to `end` are new: they go on in the page that it has
    begun, and then take whole pages from their beginning on, none of them anybody's."""
    assert len(row) == end
    for at in range(start, end):
        if at % PAGE_SIZE:
            assert row[at] == row[at - 1] + 1
        else:
            assert row[at] % PAGE_SIZE == 0
            assert 0 <= row[at] < PAGE_SIZE * NUM_PAGES
            assert row[at] not in taken
            assert row[at] not in row[:at]
'''

_CHECK = '''\
def check(*running):
    """Its own check of who owns each page and lock, and what a kernel is told of each row."""
    requests.check_ledger()
    step = requests.upload([request for request, _ in running])
    assert step.seq_lens.tolist() == [len(row) for _, row in running]
    for at, (_, row) in zip(step.rows.tolist(), running):
        pages = step.page_table[at].tolist()
        slots = [pages[n // PAGE_SIZE] * PAGE_SIZE + n % PAGE_SIZE for n in range(len(row))]
        assert slots == row
'''

_KINDS = '''\
def kinds(error):
    """The names of its class and of those that it derives from."""
    return [each.__name__ for each in type(error).__mro__]
'''


def helpers(
    configuration: RequestConfiguration,
    manager: ManagerName,
    promises: RequestPromises,
    body: list[str],
) -> Iterator[str]:
    """All that stands before the calls; of the functions those that they need."""

    def used(*names: str) -> bool:
        return any(f"{name}(" in line for name in names for line in body)

    cache = "RadixCacheManager" if promises.keeps_prefixes else "NaiveCacheManager"
    of_kvgpu = ["KVCacheLayout", "MHAKVCache", cache]
    if manager.module == "kvgpu":
        of_kvgpu.append(manager.name)
    if used("pytest.raises"):
        yield "import pytest"
    yield "import torch"
    yield f"from kvgpu import {', '.join(of_kvgpu)}"
    if manager.module != "kvgpu":
        yield f"from {manager.module} import {manager.name}"
    yield ""
    yield from _constants(configuration)
    yield ""
    yield from _building(configuration, manager, cache)
    yield ""
    yield "buffers = []  # tensors that were passed in since they were last overwritten"
    yield "numbers = {}  # of each token that has K and V: see names()"
    yield ""
    ids = "\n".join(tensor_functions(kept=True)[:4])
    parts = [_BUFFERS.format(ids=ids)]
    if used("names", "read", "store"):
        parts.append(_CONTENT)
    parts.append(_POOL)
    if used("check"):
        parts.append(_CHECK)
    if used("kinds"):
        parts.append(_KINDS)
    yield from "\n".join(parts).splitlines()


def _constants(configuration: RequestConfiguration) -> Iterator[str]:
    yield f"PAGE_SIZE, NUM_PAGES = {configuration.page_size}, {configuration.num_pages}"
    shape = f"{configuration.layers}, {configuration.kv_heads}, {configuration.head_dim}"
    yield f"LAYERS, HEADS, DIM, DTYPE = {shape}, torch.{configuration.dtype}"
    yield f"BASE = 2**{configuration.digit_bits}  # integers below it are exact in this dtype"
    yield f"DIGITS = {configuration.digits}  # of a number, that a row of K or V repeats"
    yield f"JUNK = {_JUNK}  # no token and no slot of this program"


def _building(
    configuration: RequestConfiguration, manager: ManagerName, cache: str
) -> Iterator[str]:
    keywords = f"max_requests={configuration.max_requests}"
    if configuration.max_len is not None:
        keywords += f", max_len={configuration.max_len}"
    yield "def new_cache():"
    if cache == "RadixCacheManager":
        yield f"    return {configuration.python(cache).removeprefix('cache = ')}"
    else:
        yield f'    return {cache}("cpu", page_size=PAGE_SIZE)'
    yield ""
    yield "def new_kv_cache():"
    yield "    made = MHAKVCache("
    yield f"        HEADS, LAYERS, DIM, NUM_PAGES, DTYPE, KVCacheLayout.{configuration.layout},"
    yield '        "cpu", page_size=PAGE_SIZE,'
    yield "    )"
    yield "    for layer in range(LAYERS):  # so that what was never stored is no row of anything"
    yield "        made.k_cache(layer).zero_()"
    yield "        made.v_cache(layer).zero_()"
    yield "    return made"
    yield ""
    yield "def new_requests():"
    yield f"    return {manager.name}(cache, kv_cache, {keywords})"
    yield ""
    yield "cache, kv_cache = new_cache(), new_kv_cache()"
    yield "requests = new_requests()"
