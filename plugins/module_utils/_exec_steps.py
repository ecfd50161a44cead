# Copyright: (c) 2026, gpuops.sglang contributors
# GNU General Public License v3.0 or later (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The steps of systemd before a program runs, by the exit status that names the one that failed."""

from __future__ import annotations

# systemd's exit statuses from 200 on: a step that failed before the program ran, and what to look at.
EXEC_STEPS: dict[int, tuple[str, str]] = {
    200: ("CHDIR", "Check that WorkingDirectory= exists and that the service user may enter it."),
    201: ("NICE", ""),
    202: ("FDS", ""),
    203: ("EXEC", "Check the path of the Python in ExecStart=, that its virtual environment exists and that it may be executed."),
    204: ("MEMORY", ""),
    205: ("LIMITS", "Check the Limit…= settings of the unit against what this node allows."),
    206: ("OOM_ADJUST", ""),
    207: ("SIGNAL_MASK", ""),
    208: ("STDIN", ""),
    209: ("STDOUT", "Check StandardOutput= and the folder it writes to."),
    210: ("CHROOT", ""),
    211: ("IOPRIO", ""),
    212: ("TIMERSLACK", ""),
    213: ("SECUREBITS", ""),
    214: ("SETSCHEDULER", ""),
    215: ("CPUAFFINITY", "Check CPUAffinity= against the CPUs of this node."),
    216: ("GROUP", "Create the group of Group=, or correct its name."),
    217: ("USER", "Create the user of User=, or correct its name."),
    218: ("CAPABILITIES", ""),
    219: ("CGROUP", ""),
    220: ("SETSID", ""),
    222: ("STDERR", "Check StandardError= and the folder it writes to."),
    224: ("PAM", ""),
    225: ("NETWORK", ""),
    226: ("NAMESPACE", "Check that the paths in ReadWritePaths=, BindPaths= and the other file system settings exist."),
    227: ("NO_NEW_PRIVILEGES", ""),
    228: ("SECCOMP", ""),
    229: ("SELINUX_CONTEXT", ""),
    230: ("PERSONALITY", ""),
    231: ("APPARMOR", ""),
    232: ("ADDRESS_FAMILIES", ""),
    233: ("RUNTIME_DIRECTORY", "Check RuntimeDirectory= and who owns that folder below /run."),
    235: ("CHOWN", ""),
    236: ("SMACK_PROCESS_LABEL", ""),
    237: ("KEYRING", ""),
    238: ("STATE_DIRECTORY", "Check StateDirectory= and who owns that folder."),
    239: ("CACHE_DIRECTORY", "Check CacheDirectory= and who owns that folder."),
    240: ("LOGS_DIRECTORY", "Check LogsDirectory= and who owns that folder."),
    241: ("CONFIGURATION_DIRECTORY", "Check ConfigurationDirectory= and who owns that folder."),
    242: ("NUMA_POLICY", "Check NUMAPolicy= and NUMAMask= against the NUMA nodes of this machine."),
    243: ("CREDENTIALS", "Check LoadCredential= of the unit and that the file it names exists."),
    245: ("BPF", ""),
}
EXEC_STEP_HINT = "Check the setting of the unit that this step belongs to (systemctl cat, man systemd.exec)."
