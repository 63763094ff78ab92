#!/bin/sh -e
# A board under L4T R32 at its maximum: which one it is, the device tree tells; the GPU is found by its node's name among all
# devfreq devices; what holds the memory's rate comes before the rate. Cores and fan stay as they are.

cpu=/sys/devices/system/cpu
model=$(tr -d '\0' < /proc/device-tree/model)
chip=$(tr '\0' '\n' < /proc/device-tree/compatible | grep -o 'tegra[0-9]*' | tail -n 1)
echo "$chip $model"
[ -e /dev/nvhost-gpu ]

for folder in $cpu/cpu[0-9]; do
    [ "$(cat "$folder/online")" -eq 1 ] || continue
    echo performance > "$folder/cpufreq/scaling_governor"
    cat "$folder/cpufreq/scaling_max_freq" > "$folder/cpufreq/scaling_min_freq"
done
for file in $cpu/cpu[0-9]/cpuidle/state[0-9]/disable; do
    echo 1 > "$file"
done
if [ -e $cpu/cpuquiet ]; then
    echo 0 > $cpu/cpuquiet/tegra_cpuquiet/enable
    echo runnable > $cpu/cpuquiet/current_governor
fi
for switch in /sys/kernel/debug/tegra_cpufreq/*_CLUSTER/cc3/enable /sys/module/qos/parameters/enable; do
    [ ! -e "$switch" ] || echo 0 > "$switch"
done

gpu=
for device in /sys/class/devfreq/*; do
    case $(tr -d '\0' < "$device/device/of_node/name") in
    gpu | gp10b | gv11b) gpu=$device ;;
    esac
done
[ -n "$gpu" ]
echo 0 > "$gpu/device/railgate_enable"
cat "$gpu/max_freq" > "$gpu/min_freq"
[ "$(cat "$gpu/cur_freq")" = "$(cat "$gpu/max_freq")" ]

case $chip in
tegra210)
    echo 1 > /sys/kernel/debug/clk/override.emc/clk_state
    cat /sys/kernel/debug/tegra_bwmgr/emc_max_rate > /sys/kernel/debug/clk/override.emc/clk_update_rate
    ;;
tegra186 | tegra194)
    emc=/sys/kernel/debug/bpmp/debug/clk/emc
    rate=$(cat $emc/max_rate)
    cap=$(cat /sys/kernel/nvpmodel_emc_cap/emc_iso_cap)
    if [ "$cap" -gt 0 ] && [ "$cap" -lt "$rate" ]; then
        rate=$cap
    fi
    echo 1 > $emc/mrq_rate_locked
    echo "$rate" > $emc/rate
    [ "$(cat $emc/rate)" -eq "$rate" ]
    ;;
esac
