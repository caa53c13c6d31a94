#!/bin/sh
# One training on two "machines": two network namespaces with their own hostnames and one cable between them.
# As root, from a clone: sh experiments/two_machines.sh OUT [options of reqnn train]
set -eu
out=$1; shift
address=10.77.0
trap 'ip netns del reqnn-1; ip netns del reqnn-2' EXIT
ip netns add reqnn-1; ip netns add reqnn-2
ip link add cable1 netns reqnn-1 type veth peer name cable2 netns reqnn-2
for i in 1 2; do
    ip netns exec reqnn-$i ip address add $address.$i/24 dev cable$i
    ip netns exec reqnn-$i ip link set cable$i up
    ip netns exec reqnn-$i ip link set lo up
done
machine() {
    rank=$1; number=$((rank + 1)); shift
    GLOO_SOCKET_IFNAME=cable$number ip netns exec reqnn-$number unshare --uts sh -c "hostname machine-$number; hostname; exec \"\$@\"" - \
        "${PYTHON:-python}" -m torch.distributed.run --nnodes 2 --nproc-per-node 1 --node-rank "$rank" --master-addr $address.1 --master-port 29500 \
        -m reqnn.cli train --out "$out" "$@"
}
machine 1 "$@" > "$out.machine-2.log" 2>&1 &
machine 0 "$@"
wait
cat "$out.machine-2.log"
