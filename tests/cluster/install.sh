#!/usr/bin/env bash
# Debian packages of what tests/cluster brings up. Where they cannot be had the tests say so and skip.
set -uo pipefail
needed=(slurm-wlm munge slurmdbd mariadb-server postgresql chromium chromium-driver)
missing=()
for package in "${needed[@]}"; do
    dpkg-query --show --showformat='${Status}' "$package" 2>/dev/null | grep -q "ok installed" || missing+=("$package")
done
[ ${#missing[@]} -eq 0 ] && exit 0
if [ "$(id -u)" -ne 0 ] || ! command -v apt-get >/dev/null; then
    echo "tests/cluster/install.sh: not installed, and only root on Debian or Ubuntu can: ${missing[*]}" >&2
    exit 0
fi
export DEBIAN_FRONTEND=noninteractive
# No daemon may start by itself: the tests start their own, on other ports, and stop them by pid.
policy=/usr/sbin/policy-rc.d
[ -e "$policy" ] || { printf '#!/bin/sh\nexit 101\n' >"$policy"; chmod +x "$policy"; trap 'rm -f "$policy"' EXIT; }
echo "installing ${missing[*]}" >&2
apt-get update -qq && apt-get install -y -qq --no-install-recommends "${missing[@]}" >/dev/null ||
    echo "tests/cluster/install.sh: apt-get could not install ${missing[*]}" >&2
exit 0
