# Two images from one file, each from this folder: `search` has no torch, `trainer` has everything.
FROM python:3.11.13-slim-bookworm AS source
ENV PIP_NO_CACHE_DIR=1 PIP_DISABLE_PIP_VERSION_CHECK=1 PYTHONUNBUFFERED=1 MPLCONFIGDIR=/tmp/matplotlib
# Folders that volumes are mounted on get their owner from here.
RUN useradd --create-home --uid 1000 evovpo && install --directory --owner=evovpo --group=evovpo /data /policies
WORKDIR /source
COPY pyproject.toml README.md LICENSE ./
COPY evovpo evovpo
COPY trainer trainer
COPY problems problems

FROM source AS search
# KubeRay's health checks call wget.
RUN apt-get update && apt-get install --yes --no-install-recommends wget && rm -r /var/lib/apt/lists/*
RUN pip install ".[server,postgres,ray]" && rm -r /source/*
USER 1000
WORKDIR /data
ENTRYPOINT ["evovpo"]
CMD ["--help"]

FROM source AS trainer
ARG TORCH_INDEX=""
# "server,postgres,train,vllm" for a trainer with a GPU, which then samples with vLLM.
ARG EXTRAS="server,postgres,train"
RUN pip install torch==2.13.0 ${TORCH_INDEX:+--index-url "$TORCH_INDEX"} \
    && pip install ".[$EXTRAS]" \
    && rm -r /source/*
USER 1000
WORKDIR /data
ENV HF_HUB_OFFLINE=1
ENTRYPOINT ["evovpo"]
CMD ["--help"]
