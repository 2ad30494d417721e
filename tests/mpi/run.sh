#!/usr/bin/env bash
# run.sh RAPT FOLDER: one call and training runs over 1 to 8 processes, on this machine and between network namespaces.
# Bits are compared with one process, values with the engine without MPI; processes are killed at random moments (by
# RAPT_TEST_SEED), stopped and cut off. Started by the launcher of the MPI that the tool was built with, or RAPT_MPIRUN.
set -euo pipefail

rapt=$1 folder=$2
here=$(cd "$(dirname "$0")" && pwd)
arrays="$here/arrays.py"
rm -rf "$folder"
mkdir -p "$folder"
cd "$folder"

skip() { echo "skipped: $1"; exit 0; }
fail() { echo "FAILED: $1" >&2; exit 1; }

is_mpich=no launchers=(mpirun.openmpi mpirun)
if [[ $(ldd "$rapt") == *libmpich.* ]]; then is_mpich=yes launchers=(mpiexec.mpich mpiexec.hydra mpirun); fi
mpirun=${RAPT_MPIRUN:-}
for name in "${launchers[@]}"; do
  [[ -n $mpirun ]] || mpirun=$(command -v "$name" || true)
done
[[ -n $mpirun ]] || skip "mpirun was not found (scripts/bootstrap --mpi)"
command -v python3 >/dev/null || skip "python3 was not found"
# Unless told otherwise, Open MPI starts nothing as root, and no more processes than cores. Processes that share cores
# must not spin.
export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1 OMPI_MCA_rmaps_base_oversubscribe=1
export OMPI_MCA_mpi_yield_when_idle=1 OMPI_MCA_hwloc_base_binding_policy=none OMPI_MCA_btl_base_warn_component_unused=0
# Within containers one process may not read the memory of another.
export OMPI_MCA_btl_vader_single_copy_mechanism=none
timeout 60 "$mpirun" -n 2 "$rapt" list >list.txt 2>list.err || skip "mpirun cannot start two processes here: $(tail -n 1 list.err)"
[[ $(grep -c '^ *scaled_dot ' list.txt) == 1 ]] || fail "rapt list was printed by more than one process"

# mpi N COMMAND...: within two minutes
mpi() { timeout 120 "$mpirun" -n "$1" "${@:2}"; }

echo "== attend: the same bits for 1, 2, 3, 4 and 8 processes"
python3 "$arrays" make . 300
# each CASE: options beyond --q --k --v
cases=("--causal top_left" "--score alibi --param m=0.5,0.25,0.125,0.1 --causal bottom_right --key-lengths 250,300"
       "--score bilinear --param W=map.npy --softcap 5" "--param sink=0.1,0.2,0.3,0.4 --window 40,3"
       "--query-starts 0,100,300 --key-starts 0,100,300 --causal top_left" "--bias bias.npy --rotary 8" "--dtype f64 --causal top_left"
       "--formula raw*scale-m*abs(j-i) --param m=0.1,0.2,0.3,0.4" "--normalize sigmoid --causal top_left")
number=0
for options in "${cases[@]}"; do
  number=$((number + 1))
  read -ra list <<<"$options"
  common=(attend --q q.npy --k k.npy --v v.npy --grad grad.npy "${list[@]}")
  "$rapt" "${common[@]}" --out "engine$number" >/dev/null
  for processes in 1 2 3 4 8; do
    # More processes than cores: two cases with all eight, so that the test stays short.
    ((processes < 8 || number <= 2)) || continue
    mpi "$processes" "$rapt" "${common[@]}" --distribution ring --out "ring$number.$processes" >/dev/null
    python3 "$arrays" same "ring$number.$processes" "ring$number.1" || fail "$processes processes, $options"
  done
  python3 "$arrays" near "ring$number.1" "engine$number" 2e-5 || fail "$options"
  [[ $options == *bias* ]] && continue
  mpi 3 "$rapt" "${common[@]}" --distribution heads --out "heads$number" >/dev/null
  python3 "$arrays" same "heads$number" "ring$number.1" || fail "heads, $options"
done
echo "== attend: refusals and explanations"
mpi 3 "$rapt" attend --q q.npy --k k.npy --v v.npy --explain --out explained >explain.txt
grep -q 'GB/s between processes' explain.txt || fail "no explanation"
for options in "--weights" "--stats" "--causal nonsense" "--path reference" "--key-lengths 400,1"; do
  read -ra list <<<"$options"
  if mpi 3 "$rapt" attend --q q.npy --k k.npy --v v.npy "${list[@]}" --out refused >refused.txt 2>&1; then fail "$options was not refused"; fi
  [[ $(grep -c '^rapt: ' refused.txt) == 1 ]] || fail "$options: expected one sentence, got $(cat refused.txt)"
  [[ ! -e refused ]] || fail "$options left files"
done

echo "== srun --mpi=pmix: each of two processes that MPI does not join says so, and writes nothing"
for variables in "PMIX_NAMESPACE=slurm.pmix.7.0 PMIX_RANK=1 SLURM_STEP_NUM_TASKS=2" "PMIX_NAMESPACE=other PMIX_RANK=0"; do
  read -ra list <<<"$variables"
  if timeout 60 env "${list[@]}" "$rapt" attend --q q.npy --k k.npy --v v.npy --out joined >joined.txt 2>&1; then fail "$variables: ran alone"; fi
  grep -q "rapt: expected .* as the launcher says, got 1 from MPI" joined.txt || fail "$variables: $(cat joined.txt)"
  [[ ! -e joined ]] || fail "$variables: left files"
done
# srun without an MPI starts plain programs.
env SLURM_STEP_NUM_TASKS=2 SLURM_PROCID=0 "$rapt" attend --q q.npy --k k.npy --v v.npy --out plain >/dev/null

echo "== bench: the engine alone has the processors of all processes"
if (($(nproc) > 1)); then
  bound=(2)
  [[ $is_mpich == no ]] || bound=(2 -bind-to core)
  OMPI_MCA_hwloc_base_binding_policy=core mpi "${bound[@]}" "$rapt" bench processes --shape 1,1,256,16 --threads 1 --repeat 1 --json >bench.json
  grep -qE '"engine_processors": ([2-9]|[1-9][0-9])' bench.json || fail "the engine beside two bound processes: $(cat bench.json)"
else
  echo "skipped: two processes cannot be bound to two processors: there is one"
fi

echo "== train: the weights of one process"
python3 "$arrays" lines pairs.tsv
train=(train --data pairs.tsv --attention dot --hidden 32 --embedding 16 --schedule constant)
"$rapt" "${train[@]}" --epochs 3 --out alone >/dev/null
for processes in 2 3 4; do
  mpi "$processes" "$rapt" "${train[@]}" --epochs 3 --out "train$processes" >/dev/null
  cmp -s alone/model.safetensors "train$processes/model.safetensors" || fail "$processes processes train other weights"
done
# Another number of processes resumes the run.
mpi 3 "$rapt" "${train[@]}" --epochs 1 --out resumed >/dev/null
mpi 2 "$rapt" train --resume --epochs 2 --out resumed >/dev/null
mpi 4 "$rapt" train --resume --epochs 3 --out resumed >/dev/null
cmp -s alone/model.safetensors resumed/model.safetensors || fail "a resumed run has other weights"
if mpi 2 "$rapt" "${train[@]}" --epochs 3 --out train2 >refused.txt 2>&1; then fail "a run was trained over"; fi
grep -q 'holds a run already' refused.txt || fail "expected a sentence about the run, got $(cat refused.txt)"

echo "== train: images, the weights of one process"
images=(train digits --epochs 1 --batch 100)
"$rapt" "${images[@]}" --out images1 >/dev/null
mpi 3 "$rapt" "${images[@]}" --out images3 >/dev/null
cmp -s images1/model.safetensors images3/model.safetensors || fail "3 processes train other weights for images"

# ranks_of LAUNCHER: its processes, by rank. MPICH starts them by a process of its own.
ranks_of() { { pgrep -P "$1" -x rapt || pgrep -P "$(pgrep -P "$1" -d ,)" -x rapt || true; } 2>/dev/null | sort -n; }

# disturb SIGNAL RANK RUN: ends within 30 seconds, and the run goes on to the same weights. FREEZE stops the main thread alone.
disturb() {
  local signal=$1 rank=$2 run=$3
  "$mpirun" -n 3 "$rapt" "${train[@]}" --epochs 100000 --out "$run" >"$run.log" 2>&1 &
  local launcher=$! pids=() waited=0 n
  until [[ -e $run/state.safetensors ]]; do
    sleep 0.2
    waited=$((waited + 1))
    ((waited < 300)) || fail "$run did not start: $(cat "$run.log")"
  done
  mapfile -t pids < <(ranks_of "$launcher")
  ((${#pids[@]} == 3)) || fail "expected three processes, got ${#pids[@]}"
  if [[ $signal == FREEZE ]]; then
    python3 "$here/freeze.py" "${pids[$rank]}" >"$run.freeze" 2>&1 &
    for ((n = 0; n < 200; ++n)); do [[ ! -s $run.freeze ]] || break; sleep 0.1; done
    if ! grep -q '^stopped' "$run.freeze"; then
      echo "skipped: no process may be traced here, so none hangs: $(cat "$run.freeze")"
      kill "$launcher" && wait "$launcher" || true
      return 0
    fi
  else
    kill "-$signal" "${pids[$rank]}"
  fi
  local start=$SECONDS status=0
  wait "$launcher" || status=$?
  ((SECONDS - start <= 30)) || fail "$signal: the run ended after $((SECONDS - start)) seconds"
  ((status != 0)) || fail "$signal: the run says that all is well"
  sleep 1
  for pid in "${pids[@]}"; do
    # A zombie counts as gone too.
    [[ ! -e /proc/$pid ]] || grep -q '^State:.*Z' "/proc/$pid/status" 2>/dev/null || fail "$signal: process $pid is still there"
  done
  echo "   $signal of process $rank: ended after $((SECONDS - start)) s: $(grep -aE 'rapt: process|exited on signal|EXIT CODE' "$run.log" | head -n 1)"
}

echo "== train: a process that dies, and one that is stopped"
disturb KILL 1 killed
# A process hangs if its main thread does, even if others still run.
disturb FREEZE 1 frozen &
frozen=$!
disturb STOP 2 stopped
wait "$frozen" || fail "a process whose main thread was stopped did not end the run"
! grep -q '^stopped' frozen.freeze || grep -q 'rapt: process 1 has not been heard from for' frozen.log || fail "expected a sentence about process 1, got $(cat frozen.log)"
grep -q 'rapt: process 2 has not been heard from for' stopped.log || fail "expected a sentence about process 2, got $(cat stopped.log)"
# Two processes resume what three left, and reach the result of one undisturbed process.
for run in killed stopped; do
  epochs=$(($(wc -l <"$run/metrics.jsonl") + 2))
  mpi 2 "$rapt" train --resume --epochs "$epochs" --out "$run" >/dev/null
  "$rapt" "${train[@]}" --epochs "$epochs" --out "$run.alone" >/dev/null
  cmp -s "$run/model.safetensors" "$run.alone/model.safetensors" || fail "$run: the resumed run has other weights"
done

seed=${RAPT_TEST_SEED:-$RANDOM}
RANDOM=$seed
echo "== a process that dies at a random moment (RAPT_TEST_SEED=$seed)"
# die RANK SECONDS COMMAND...: ends within 30 seconds of the death; 1: it was done before
die() {
  local rank=$1 after=$2
  shift 2
  "$mpirun" -n 3 "$rapt" "$@" >died.log 2>&1 &
  local launcher=$! pids=() waited=0 status=0
  until ((${#pids[@]} == 3)); do
    sleep 0.1
    waited=$((waited + 1))
    ((waited < 300)) && kill -0 "$launcher" 2>/dev/null || fail "three processes did not start: $(cat died.log)"
    mapfile -t pids < <(ranks_of "$launcher")
  done
  sleep "$after"
  kill -KILL "${pids[$rank]}" 2>/dev/null || true
  local start=$SECONDS
  wait "$launcher" || status=$?
  ((SECONDS - start <= 30)) || fail "the run ended $((SECONDS - start)) seconds after the death of process $rank"
  echo "   process $rank after $after s: $((SECONDS - start)) s, status $status"
  ((status != 0))
}
moment() { printf '%d.%03d' $((RANDOM % 3)) $((RANDOM % 1000)); }
mkdir -p long
python3 "$arrays" make long 3000 rows
for ((n = 0; n < 3; ++n)); do
  if die $((RANDOM % 3)) "$(moment)" attend --q long/q.npy --k long/k.npy --v long/v.npy --grad long/grad.npy --distribution ring --out "died$n"; then
    # Whole files or none, with the bits of an undisturbed run.
    [[ -d undisturbed ]] || mpi 3 "$rapt" attend --q long/q.npy --k long/k.npy --v long/v.npy --grad long/grad.npy --distribution ring --out undisturbed >/dev/null
    for file in "died$n"/*.npy; do
      [[ ! -e $file ]] || cmp -s "$file" "undisturbed/${file##*/}" || fail "$file is not whole"
    done
  fi
done
die $((RANDOM % 3)) "$(moment)" "${train[@]}" --epochs 100000 --out random || fail "training ended too well"
# Where nothing was saved yet, --resume starts from the beginning.
while ! die $((RANDOM % 3)) "$(moment)" "${train[@]}" --resume --epochs 100000 --out random; do :; done
epochs=2
[[ ! -e random/metrics.jsonl ]] || epochs=$(($(wc -l <random/metrics.jsonl) + 2))
mpi 2 "$rapt" "${train[@]}" --resume --epochs "$epochs" --out random >/dev/null
"$rapt" "${train[@]}" --epochs "$epochs" --out random.alone >/dev/null
cmp -s random/model.safetensors random.alone/model.safetensors || fail "a run killed at random has other weights when resumed"

echo "== two network namespaces: the same bits over a slow link, and a link that is cut"
one=rapt$$a other=rapt$$b forwarder=
remove() {
  ip netns del "$one" 2>/dev/null || true
  ip netns del "$other" 2>/dev/null || true
  ip link del "${one}v" 2>/dev/null || true
  [[ -z ${forwarder:-} ]] || kill "$forwarder" 2>/dev/null || true
}
if ((EUID != 0)) || ! command -v ip >/dev/null || ! ip netns add "$one" 2>netns.err; then
  echo "skipped: network namespaces cannot be made here$([[ -s netns.err ]] && echo ": $(head -n 1 netns.err)")"
  echo "== all others passed"
  exit 0
fi
trap remove EXIT
ip netns add "$other"
# Two to four milliseconds each way: by the kernel's netem, or else by a process that passes packets on.
delayed=netem
if ! ip link add "${one}v" type veth peer name "${other}v" || ! tc qdisc add dev "${one}v" root netem delay 3ms 1ms 2>/dev/null ||
  ! tc qdisc add dev "${other}v" root netem delay 3ms 1ms 2>/dev/null; then
  delayed=no
  python3 "$here/slow_link.py" "${one}t" "${other}t" 2 >slow_link.log 2>&1 &
  forwarder=$!
  for ((n = 0; n < 50; ++n)); do
    kill -0 "$forwarder" 2>/dev/null || break
    ! grep -q ready slow_link.log || { delayed=tun && break; }
    sleep 0.1
  done
fi
[[ $delayed != no ]] || echo "skipped: the link delays no message: the kernel has no netem, and no TUN: $(tail -n 1 slow_link.log) (tests/distributed delays those of threads)"
[[ $delayed == no ]] || echo "   packets take 2 to 4 ms ($delayed)"
suffix=v
[[ $delayed != tun ]] || suffix=t
for pair in "$one 1" "$other 2"; do
  read -r name last <<<"$pair"
  ip link set "$name$suffix" netns "$name" name wire
  ip -n "$name" address add "10.77.0.$last/24" dev wire
  ip -n "$name" link set lo up
  ip -n "$name" link set wire up
done
# Stands in for ssh: the other machine is the other namespace.
printf '#!/usr/bin/env bash\n[[ $1 != -x ]] || shift\nnamespace=%s\n[[ $1 != 10.77.0.1 ]] || namespace=%s\nshift\nexec ip netns exec "$namespace" bash -c "$*"\n' \
  "$other" "$one" >agent.sh
chmod +x agent.sh
over_link=(ip netns exec "$one" "$mpirun" --host 10.77.0.1:1,10.77.0.2:1 --mca plm_rsh_agent "$PWD/agent.sh" --mca btl tcp,self
           --mca oob_tcp_if_include 10.77.0.0/24 --mca btl_tcp_if_include 10.77.0.0/24 -n 2)
[[ $is_mpich == no ]] || over_link=(ip netns exec "$one" "$mpirun" -hosts 10.77.0.1,10.77.0.2 -launcher ssh -launcher-exec "$PWD/agent.sh"
                                    -iface wire -genv MPIR_CVAR_NOLOCAL 1 -genv FI_PROVIDER tcp -genv FI_TCP_IFACE wire -genv UCX_TLS tcp,self -genv UCX_NET_DEVICES wire -n 2)
timeout 120 "${over_link[@]}" "$rapt" attend --q "$PWD/q.npy" --k "$PWD/k.npy" --v "$PWD/v.npy" --grad "$PWD/grad.npy" --causal top_left \
  --distribution ring --out "$PWD/link1" >link1.log 2>&1 || fail "over the link: $(cat link1.log)"
python3 "$arrays" same link1 ring1.1 || fail "other bits over the link"
"${over_link[@]}" "$rapt" "${train[@]/pairs.tsv/$PWD/pairs.tsv}" --epochs 100000 --out "$PWD/cut" >cut.log 2>&1 &
launcher=$!
for ((n = 0; n < 300; ++n)); do [[ ! -e cut/state.safetensors ]] || break; sleep 0.2; done
[[ -e cut/state.safetensors ]] || fail "training did not start over the link: $(cat cut.log)"
ip -n "$other" link set wire down
start=$SECONDS status=0
# What mpirun left on the other side cannot be told to end; a second one here would wait for it.
(sleep 35 && kill -KILL "$launcher") 2>/dev/null &
wait "$launcher" || status=$?
((SECONDS - start <= 30 && status != 0)) || fail "cut link: ended after $((SECONDS - start)) s with $status: $(cat cut.log)"
for ((n = 0; n < 40; ++n)); do [[ -n $(ip netns pids "$other") ]] || break; sleep 0.5; done
[[ -z $(ip netns pids "$other") ]] || fail "cut link: left on the other side: $(ps -o args= -p "$(ip netns pids "$other" | paste -sd,)")"
echo "   cut link: ended after $((SECONDS - start)) s: $(grep -aE 'rapt: process|lost|communication' cut.log | head -n 1)"

echo "== all passed"
