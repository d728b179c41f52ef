"""A small serving loop: many requests in turns, their K and V in the pages of one pool."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field

import torch
from transformers import LlamaForCausalLM

from examples.llama.paged_cache import PagedCache
from kvgpu import MHAKVCache, NoRoom, Request, RequestManager, TooManyRequests

__all__ = ["Job", "Server", "Statistics"]


@dataclass(eq=False)
class Job:
    """A prompt, and what became of it."""

    prompt: list[int]
    num_new: int
    tokens: list[int] = field(default_factory=list)
    """Prompt and generated, as far as they are known."""
    request: Request | None = None
    """While it runs."""
    logits: list[tuple[int, torch.Tensor]] = field(default_factory=list)
    """Of each token that was computed: its position, and its logits on the CPU."""

    @property
    def done(self) -> bool:
        """All its tokens are there."""
        return len(self.tokens) == len(self.prompt) + self.num_new


@dataclass
class Statistics:
    """What a server did."""

    steps: int = 0
    computed_tokens: int = 0
    reused_tokens: int = 0
    evicted_pages: int = 0
    finished: int = 0
    aborted: int = 0
    preempted: int = 0


class Server:
    """Serves jobs with a model, out of the pool of `requests`.

    Each step gives every running job its turn: a chunk of its prompt, or one token. A job that
    finds no room preempts the youngest, which begins again later and finds in the cache what was
    published of it and not evicted.

    Args:
        model: eager attention, float32.
        requests: over a storage of the model's shape.
        chunk: tokens of a prompt that are computed in one step.
        exact: give every forward one shape: `requests.max_len` rows and as many keys, each token
            in the row of its position, the rest padding. How a matmul rounds depends on its
            shape, so only then are the logits those of the whole sequence, bit for bit, on any
            CPU. It costs what the padding costs. Otherwise a forward is as long as its chunk.
    """

    def __init__(
        self,
        model: LlamaForCausalLM,
        requests: RequestManager,
        *,
        chunk: int,
        exact: bool = True,
    ) -> None:
        if not isinstance(requests.kv_cache, MHAKVCache):
            raise TypeError(f"needs an MHAKVCache, whose rows can be read: {requests.kv_cache!r}")
        self.requests = requests
        self.statistics = Statistics()
        self._model = model
        self._kv_cache = requests.kv_cache
        self._chunk = chunk
        self._exact = exact
        self._waiting: deque[Job] = deque()
        self._running: list[Job] = []

    def submit(self, prompt: list[int], num_new: int) -> Job:
        """Queue a prompt, to be continued by `num_new` tokens."""
        job = Job(prompt, num_new, tokens=list(prompt))
        self._waiting.append(job)
        return job

    def abort(self, job: Job) -> None:
        """End a job that is not done, wherever it is: nothing of its last chunk is published."""
        if job.request is None:
            self._waiting.remove(job)
        else:
            job.request.abort()
            self._leave(job)
        self.statistics.aborted += 1

    @property
    def idle(self) -> bool:
        """Nothing waits and nothing runs."""
        return not self._waiting and not self._running

    @torch.inference_mode()
    def step(self) -> None:
        """One turn for every running job."""
        self._admit()
        batch = self._make_room()
        inputs = self.requests.upload([request for _, request in batch])
        page_tables = inputs.page_table.index_select(0, inputs.rows)
        end = 0
        for index, (job, request) in enumerate(batch):
            start, stop = request.stored_len, request.extended_len
            begin, end = end, end + stop - start
            out_loc = inputs.out_loc[begin:end]
            logits = self._forward(job.tokens, start, stop, page_tables[index], out_loc)
            request.mark_stored()
            request.commit()
            job.logits += zip(range(start, stop), logits.cpu(), strict=True)
            self.statistics.computed_tokens += stop - start
            if stop == len(job.tokens):
                token = int(logits[-1].argmax())
                request.append([token])
                job.tokens.append(token)
            if job.done:
                request.finish()
                self._leave(job)
                self.statistics.finished += 1
        self.statistics.steps += 1

    def _admit(self) -> None:
        while self._waiting:
            job = self._waiting[0]
            try:
                with self._evictions_counted():
                    job.request = self.requests.begin(job.tokens, max_tokens=self._chunk)
            except (NoRoom, TooManyRequests):
                if not self._running:
                    raise
                return
            self.statistics.reused_tokens += job.request.cached_len
            self._running.append(self._waiting.popleft())

    def _make_room(self) -> list[tuple[Job, Request]]:
        """Slots for this step's tokens of every job; oldest first, at the cost of the youngest."""
        batch = []
        for job in tuple(self._running):
            while job.request is not None:
                try:
                    self._extend(job.request)
                except NoRoom:
                    if len(self._running) == 1:
                        raise
                    self._preempt(self._running[-1])
                else:
                    batch.append((job, job.request))
                    break
        return batch

    def _extend(self, request: Request) -> None:
        if request.stored_len < request.extended_len:
            return  # it has just begun, with slots for its first chunk
        with self._evictions_counted():
            request.extend(min(request.known_len - request.extended_len, self._chunk))

    def _preempt(self, job: Job) -> None:
        assert job.request is not None
        job.tokens = job.request.preempt().tolist()
        self._leave(job)
        self._waiting.appendleft(job)
        self.statistics.preempted += 1

    def _leave(self, job: Job) -> None:
        job.request = None
        self._running.remove(job)

    @contextmanager
    def _evictions_counted(self) -> Iterator[None]:
        """Around what only evicts: the cache shrinks by what went."""
        manager = self.requests.manager
        before = manager.size_info.total_size
        yield
        slots = before - manager.size_info.total_size
        self.statistics.evicted_pages += slots // self.requests.page_size

    def _forward(
        self,
        tokens: list[int],
        start: int,
        stop: int,
        page_table: torch.Tensor,
        out_loc: torch.Tensor,
    ) -> torch.Tensor:
        """The logits of `tokens[start:stop]`, `[stop - start, vocab]`.

        Args:
            tokens: of the job.
            start, stop: before `start` all K and V are stored.
            page_table: `[max_pages]`, int32: the job's pages, then anything.
            out_loc: `[stop - start]`, int32: where the K and V of these tokens go.
        """
        device, page_size = page_table.device, self.requests.page_size
        places = torch.arange(page_size, dtype=torch.int32, device=device)
        slots = (page_table[:, None] * page_size + places).flatten()
        if self._exact:
            rows, first = self.requests.max_len, 0
            position = torch.arange(rows, device=device)
            slots = torch.where(position < stop, slots[:rows], -1)
            out_loc = torch.nn.functional.pad(out_loc, (start, rows - stop), value=-1)
            ids = [0] * start + tokens[start:stop] + [0] * (rows - stop)
        else:
            first = start
            slots = slots[:stop]
            ids = tokens[start:stop]
        cache = PagedCache(self._kv_cache, slots, out_loc, past=first)
        # By position: the parameter has been renamed.
        logits = self._model(torch.tensor([ids], device=device), None, None, cache).logits[0]
        return logits[start - first : stop - first]
