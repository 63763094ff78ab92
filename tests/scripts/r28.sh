#!/bin/sh -e
# A board under L4T R28 at its maximum: which one it is, soc0 tells; paths of the GPU by its address; the memory's rate comes
# before what holds it. The power mode's cores stay as they are on a Tegra186.

cpu=/sys/devices/system/cpu
family=$(cat /sys/devices/soc0/family)
echo "$family $(cat /sys/devices/soc0/machine)"

case $family in
tegra210)
    gpu=/sys/devices/57000000.gpu
    highest=/sys/kernel/debug/tegra_bwmgr/emc_max_rate
    rate=/sys/kernel/debug/clk/override.emc/clk_update_rate
    hold=/sys/kernel/debug/clk/override.emc/clk_state
    for file in $cpu/cpu*/online; do
        [ "$(cat "$file")" -eq 1 ] || echo 1 > "$file"
    done
    ;;
tegra186)
    gpu=/sys/devices/17000000.gp10b
    emc=/sys/kernel/debug/bpmp/debug/clk/emc
    highest=/sys/kernel/nvpmodel_emc_cap/emc_iso_cap
    [ "$(cat $highest)" -ne 0 ] || highest=$emc/max_rate
    rate=$emc/rate
    hold=$emc/mrq_rate_locked
    for cluster in M B; do
        echo 0 > /sys/kernel/debug/tegra_cpufreq/${cluster}_CLUSTER/cc3/enable
    done
    ;;
*)
    echo "unknown: $family" >&2
    exit 1
    ;;
esac

echo 0 > /sys/module/qos/parameters/enable
[ "$(cat /sys/module/qos/parameters/enable)" = N ]

if [ -e $cpu/cpuquiet ]; then
    echo 0 > $cpu/cpuquiet/tegra_cpuquiet/enable
    echo runnable > $cpu/cpuquiet/current_governor
fi

for folder in $cpu/cpu[0-9]; do
    [ "$(cat "$folder/online")" -eq 1 ] || continue
    echo performance > "$folder/cpufreq/scaling_governor"
    cat "$folder/cpufreq/scaling_max_freq" > "$folder/cpufreq/scaling_min_freq"
done
for state in $cpu/cpu[0-9]/cpuidle/state[0-9]; do
    [ ! -e "$state/disable" ] || echo 1 > "$state/disable"
done

echo 0 > $gpu/railgate_enable
node=$(ls -d $gpu/devfreq/*)
cat "$node/max_freq" > "$node/min_freq"

cat $highest > $rate
echo 1 > $hold

echo 255 > /sys/kernel/debug/tegra_fan/target_pwm
echo "gpu $(cat "$node/cur_freq"), fan $(cat /sys/kernel/debug/tegra_fan/cur_pwm)"
