"""Programs to vectors, by an embedding model behind an OpenAI-compatible server: for judging novelty.

The client is the official `openai` package. The key is OPENAI_API_KEY of the environment, if there is one.
"""

import os
from collections.abc import Sequence

from evovpo.config import ProposerConfig
from evovpo.errors import ConfigError, ServerError
from evovpo.proposers.client import openai

_BATCH = 64
"""Texts in one request."""


class OpenAIEmbedder:
    """Asks `model` at `base_url` for vectors; a failing request is sent up to `attempts` times."""

    def __init__(self, settings: ProposerConfig, model: str) -> None:
        if not settings.base_url:
            raise ConfigError(
                f"search.novelty_model is {model} and proposer.base_url is empty; expected the address of "
                "the server that has the model: set proposer.base_url"
            )
        self._settings, self._model = settings, model
        self._client = openai.AsyncOpenAI(
            base_url=settings.base_url,
            api_key=os.environ.get("OPENAI_API_KEY") or "none",
            timeout=settings.timeout_seconds,
            max_retries=settings.attempts - 1,
        )

    async def embed(self, texts: Sequence[str]) -> list[tuple[float, ...]]:
        """Return one vector for each text, in order.

        Raises `ServerError` if the server refuses, keeps failing or answers with other than one vector each.
        """
        vectors: list[tuple[float, ...]] = []
        for start in range(0, len(texts), _BATCH):
            batch = list(texts[start : start + _BATCH])
            try:
                answer = await self._client.embeddings.create(model=self._model, input=batch)
                found = [tuple(item.embedding) for item in sorted(answer.data, key=lambda item: item.index)]
            except (openai.OpenAIError, AttributeError, TypeError, ValueError) as error:
                raise ServerError(
                    f"{self._settings.base_url} gave no embeddings of {self._model} in "
                    f"{self._settings.attempts} attempts ({error}); check search.novelty_model and "
                    "proposer.base_url"
                ) from error
            if len(found) != len(batch):
                raise ServerError(
                    f"{self._settings.base_url} gave {len(found)} embeddings for {len(batch)} texts; "
                    "expected one each: use another server or empty search.novelty_model"
                )
            vectors += found
        return vectors

    async def aclose(self) -> None:
        await self._client.close()
