"""A tiny Llama with random weights, and what it says where nothing is ever reused."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from transformers import LlamaConfig, LlamaForCausalLM

__all__ = ["Reference", "run_without_reuse", "tiny_llama"]


def tiny_llama(max_len: int, device: torch.device | str = "cpu") -> LlamaForCausalLM:
    """3 layers, 8 query heads over 2 K/V heads of dim 8, float32; nothing is downloaded.

    Its weights are larger than those of a Llama are at first, so that each token depends strongly
    on those before it: what is read from a wrong page then shows.
    """
    config = LlamaConfig(
        vocab_size=97,
        hidden_size=64,
        intermediate_size=128,
        num_hidden_layers=3,
        num_attention_heads=8,
        num_key_value_heads=2,
        max_position_embeddings=max_len,
        initializer_range=0.2,
        attn_implementation="eager",
    )
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        return LlamaForCausalLM(config).eval().to(device)


@dataclass(frozen=True)
class Reference:
    """What a sequence should have come to."""

    tokens: list[int]
    """Prompt and generated."""
    logits: torch.Tensor
    """Of all tokens but the last: `[len(tokens) - 1, vocab]`, on the CPU."""

    def differences(self, logits: list[tuple[int, torch.Tensor]]) -> list[float]:
        """By how much the logits at each position differ at most; 0.0 only for equal bits."""
        found = []
        for position, row in logits:
            expected = self.logits[position]
            same = torch.equal(row.view(torch.int32), expected.view(torch.int32))
            found.append(0.0 if same else max(float((row - expected).abs().max()), 1e-45))
        return found


@torch.inference_mode()
def run_without_reuse(
    model: LlamaForCausalLM, prompt: list[int], num_new: int, *, rows: int = 0
) -> Reference:
    """Greedy generation without any cache: for each token the whole sequence anew.

    Args:
        model: the LLM.
        prompt: at least one token.
        num_new: how many tokens to generate, at least 1.
        rows: each sequence is padded at its end to so many tokens. Causal attention hides these
            from the tokens before them; but a matmul of another shape rounds otherwise.
    """
    tokens = list(prompt)
    logits = torch.empty(0)
    for _ in range(num_new):
        padded = tokens + [0] * (rows - len(tokens))
        logits = model(torch.tensor([padded], device=model.device), use_cache=False).logits[0]
        logits = logits[: len(tokens)].cpu()
        tokens.append(int(logits[-1].argmax()))
    return Reference(tokens, logits)
