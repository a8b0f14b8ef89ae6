"""Made trees of /proc and /sys: a machine, an Intel xe card, an i915 card, an AMD card, and each of them broken."""

from pathlib import Path

CPUINFO = "processor\t: 0\nmodel name\t: Some CPU @ 2 GHz\nstepping\t: 7\nmicrocode\t: 0xa10113e\nflags\t\t: sse fpu hypervisor\n"
MACHINE = {
    "proc/cpuinfo": CPUINFO,
    "proc/meminfo": "MemTotal:       16384 kB\nMemAvailable:    9000 kB\nSwapTotal:       1024 kB\nSwapFree: 1000 kB\nHugePages_Total:       4\n",
    "proc/loadavg": "0.50 0.25 0.10 1/99 1234\n",
    "proc/stat": "cpu  100 0 50 800 50 0 0 0 0 0\ncpu0 1 2 3\n",
    "proc/cmdline": "root=UUID=1234-secret-disk mitigations=off isolcpus=2-3 ip=10.0.0.7\n",
    "proc/sys/kernel/osrelease": "6.1.0\n",
    "proc/sys/kernel/version": "#1 SMP\n",
    "proc/sys/kernel/numa_balancing": "0\n",
    "proc/sys/kernel/random/boot_id": "0f-00\n",
    "proc/sys/vm/swappiness": "60\n",
    "proc/pressure/cpu": "some avg10=1.50 avg60=0.00 avg300=0.00 total=9\n",
    "proc/42/status": "Name:\tpython\nCpus_allowed_list:\t0-2,6\nMems_allowed_list:\t0\n",
    "proc/42/limits": "Limit                     Soft Limit           Hard Limit           Units     \nMax locked memory         8388608              unlimited            bytes     \nMax open files            1024                 4096                 files     \n",
    "proc/42/cgroup": "0::/user.slice/run.scope\n",
    "sys/fs/cgroup/user.slice/run.scope/memory.max": "1073741824\n",
    "sys/fs/cgroup/user.slice/run.scope/cpu.max": "200000 100000\n",
    "sys/devices/system/cpu/online": "0-3,6\n",
    "sys/devices/system/cpu/smt/control": "off\n",
    "sys/devices/system/cpu/cpufreq/boost": "1\n",
    "sys/devices/system/cpu/cpu0/cpufreq/scaling_governor": "performance\n",
    "sys/devices/system/cpu/cpu1/cpufreq/scaling_governor": "powersave\n",
    "sys/devices/system/cpu/cpu0/cpufreq/scaling_cur_freq": "2400000\n",
    "sys/devices/system/cpu/cpu1/cpufreq/scaling_cur_freq": "1200000\n",
    "sys/devices/system/cpu/cpu0/thermal_throttle/package_throttle_count": "3\n",
    "sys/devices/system/cpu/vulnerabilities/meltdown": "Mitigation: PTI\n",
    "sys/devices/system/node/online": "0-1\n",
    "sys/kernel/mm/transparent_hugepage/enabled": "always [madvise] never\n",
    "sys/class/dmi/id/bios_version": "F4\n",
}  # fmt: skip
XE = "sys/class/drm/card1"
XE_CARD = {
    "device/vendor": "0x8086\n", "device/device": "0xe211\n", "device/revision": "0x00\n", "device/current_link_width": "8\n",
    "device/current_link_speed": "2.5 GT/s PCIe\n", "device/max_link_speed": "32.0 GT/s PCIe\n", "device/max_link_width": "8\n", "device/numa_node": "-1\n",
    "device/tile0/physical_vram_size_bytes": "25669140480\n",
    "device/tile0/gt0/freq0/act_freq": "2400\n", "device/tile0/gt0/freq0/min_freq": "1200\n", "device/tile0/gt0/freq0/max_freq": "2800\n",
    "device/tile0/gt0/freq0/rp0_freq": "2800\n", "device/tile0/gt0/freq0/rpe_freq": "400\n",
    "device/tile0/gt0/freq0/throttle/status": "1\n", "device/tile0/gt0/freq0/throttle/reason_pl1": "1\n", "device/tile0/gt0/freq0/throttle/reason_thermal": "0\n",
    "device/tile0/gt1/freq0/act_freq": "0\n",
    "device/hwmon/hwmon3/name": "xe\n", "device/hwmon/hwmon3/power1_label": "card\n", "device/hwmon/hwmon3/power1_max": "190000000\n",
    "device/hwmon/hwmon3/power2_label": "pkg\n", "device/hwmon/hwmon3/power2_max": "0\n", "device/hwmon/hwmon3/power1_crit": "300000000\n",
    "device/hwmon/hwmon3/energy1_label": "card\n", "device/hwmon/hwmon3/energy1_input": "5000000000\n",
    "device/hwmon/hwmon3/energy2_label": "pkg\n", "device/hwmon/hwmon3/energy2_input": "4000000000\n",
    "device/hwmon/hwmon3/temp2_label": "pkg\n", "device/hwmon/hwmon3/temp2_input": "59000\n", "device/drm/card1/dev": "226:1\n", "device/drm/renderD129/dev": "226:129\n",
}  # fmt: skip
I915_CARD = {
    "device/vendor": "0x8086\n", "device/device": "0x56a0\n", "gt/gt0/rps_act_freq_mhz": "600\n", "gt/gt0/rps_max_freq_mhz": "2400\n",
    "gt/gt0/throttle_reason_status": "1\n", "gt/gt0/throttle_reason_pl1": "0\n", "gt/gt0/throttle_reason_thermal": "1\n",
    "device/hwmon/hwmon2/power1_max": "190000000\n", "device/hwmon/hwmon2/energy1_input": "77000000\n", "lmem_total_bytes": "17079205888\n",
}  # fmt: skip
AMD_CARD = {
    "device/vendor": "0x1002\n", "device/device": "0x74a1\n", "device/vbios_version": "113-M3000100-102\n", "device/mem_info_vram_total": "206141652992\n",
    "device/mem_info_vram_used": "296747008\n", "device/pp_dpm_sclk": "0: 132Mhz\n1: 2100Mhz *\n", "device/gpu_busy_percent": "7\n",
    "device/power_dpm_force_performance_level": "auto\n", "device/unique_id": "abcdef0123456789\n", "device/fw_version/smc_fw_version": "0x00557300\n",
    "device/hwmon/hwmon5/power1_average": "140000000\n", "device/hwmon/hwmon5/power1_cap": "750000000\n", "device/hwmon/hwmon5/power1_cap_default": "750000000\n",
    "device/hwmon/hwmon5/temp1_label": "edge\n", "device/hwmon/hwmon5/temp1_input": "41000\n",
}  # fmt: skip


def made(root: Path, files: dict[str, str]) -> Path:
    """Write files under a root."""
    for name, text in files.items():
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    return root


def card(root: Path, name: str, driver: str, pci: str, files: dict[str, str]) -> Path:
    """A card under /sys/class/drm whose device is a link to its PCI folder, as on a real machine."""
    device = root / "sys/devices/pci0000:00" / pci
    device.mkdir(parents=True, exist_ok=True)
    folder = root / "sys/class/drm" / name
    folder.mkdir(parents=True, exist_ok=True)
    if not (folder / "device").exists():
        (folder / "device").symlink_to(device)
        (root / "sys/bus/pci/drivers" / driver).mkdir(parents=True, exist_ok=True)
        (device / "driver").symlink_to(root / "sys/bus/pci/drivers" / driver)
    made(folder, files)
    return folder
