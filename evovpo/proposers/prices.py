"""Prices of models behind servers, from the package genai-prices."""

from evovpo.config import ModelConfig

_TOKENS = 1000


def with_price(model: ModelConfig, base_url: str) -> ModelConfig:
    """Return `model`. If it has no price, the price in genai-prices (US dollars), if any, is added."""
    if model.price is not None:
        return model
    try:
        from genai_prices import Usage, calc_price

        usage = Usage(input_tokens=_TOKENS, output_tokens=_TOKENS)
        found = calc_price(usage, model.name, provider_api_url=base_url)
    except (ImportError, LookupError):
        return model
    return model.changed(
        price=[float(cost) * 1e6 / _TOKENS for cost in (found.input_price, found.output_price)]
    )
