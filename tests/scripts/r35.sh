#!/bin/sh -e
# A board under L4T R35 at its maximum: there may be ten cores and more, the GPU is known by what its node is compatible with,
# the fan has a service of its own.

cpu=/sys/devices/system/cpu
own=$(tr -d '\0' < /sys/devices/platform/gpu.0/of_node/compatible)
case $own in
nvidia,gv11b | nvidia,ga10b) ;;
*) exit 1 ;;
esac

for folder in $cpu/cpu[0-9]*; do
    if [ "$(cat "$folder/online")" -eq 1 ]; then
        echo performance > "$folder/cpufreq/scaling_governor"
        cat "$folder/cpufreq/scaling_max_freq" > "$folder/cpufreq/scaling_min_freq"
    fi
done
for file in $cpu/cpu[0-9]*/cpuidle/state[0-9]*/disable; do
    echo 1 > "$file"
done

for device in /sys/class/devfreq/*; do
    [ -f "$device/device/of_node/compatible" ] || continue
    [ "$(tr -d '\0' < "$device/device/of_node/compatible")" = "$own" ] || continue
    echo 0 > /sys/devices/platform/gpu.0/railgate_enable
    cat "$device/max_freq" > "$device/min_freq"
    echo "gpu $(cat "$device/cur_freq"), load $(cat /sys/devices/platform/gpu.0/load)"
done

emc=/sys/kernel/debug/bpmp/debug/clk/emc
highest=$emc/max_rate
for cap in /sys/kernel/nvpmodel_emc_cap/emc_iso_cap /sys/kernel/nvpmodel_clk_cap/emc; do
    if [ -f $cap ] && [ "$(cat $cap)" -gt 0 ] && [ "$(cat $cap)" -lt "$(cat $highest)" ]; then
        highest=$cap
    fi
done
echo 1 > $emc/mrq_rate_locked
cat $highest > $emc/rate

for pwm in /sys/devices/platform/pwm-fan*/hwmon/hwmon*/pwm*; do
    echo "fan: nvfancontrol $(systemctl is-active nvfancontrol), $(basename "$pwm") $(cat "$pwm")"
done
