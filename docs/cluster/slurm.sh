#!/bin/bash
# A batch on the nodes of one SLURM job: sbatch --export=ALL,PLAN=comparison.toml,STORE=postgresql+psycopg://… slurm.sh
# Every node sees the folder that it is sent from, and has evovpo with the extras ray and postgres on its path.
#SBATCH --job-name=evovpo
#SBATCH --nodes=4
#SBATCH --ntasks-per-node=1
#SBATCH --cpus-per-task=16
#SBATCH --time=08:00:00
#SBATCH --signal=B:INT@120
set -euo pipefail
: "${PLAN:?the file of the batch}" "${STORE:?the address of a database server}"

nodes=$(scontrol show hostnames "$SLURM_JOB_NODELIST")
first=${nodes%%$'\n'*}
export RAY_ADDRESS="$first:6379"
trap 'kill $(jobs -p) 2>/dev/null || true' EXIT

start() { # how many nodes, which of them, what they start
    srun --nodes="$1" --ntasks="$1" "$2" ray start "${@:3}" --num-cpus="$SLURM_CPUS_PER_TASK" --block &
}
start 1 --nodelist="$first" --head --port=6379
for _ in $(seq 60); do
    ray health-check --address "$RAY_ADDRESS" && break || sleep 2
done
others=$((SLURM_JOB_NUM_NODES - 1))
if ((others)); then start "$others" --exclude="$first" --address="$RAY_ADDRESS"; fi

# Two minutes before its time is over, SLURM asks the job to end: the runs stop in order, and the same job goes on later.
set -m # without it, what runs in the background does not hear an interrupt
trap 'kill -INT $!' INT
evovpo batch "$PLAN" --executor ray --store "$STORE" &
batch=$!
wait "$batch" && code=0 || code=$?
while kill -0 "$batch" 2>/dev/null; do wait "$batch" && code=0 || code=$?; done
exit "$code"
