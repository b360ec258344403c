import { spawnSync } from 'node:child_process';
import { existsSync } from 'node:fs';

/**
 * Installs Debian packages that are missing, if this user and system can. `needs` has a file of each package,
 * by its name. Returns the names of the packages that are still missing.
 */
export function installDebianPackages(needs) {
  const listMissing = () => Object.keys(needs).filter((name) => !existsSync(needs[name]));
  const missing = listMissing();
  if (missing.length === 0) return missing;
  const install = ['install', '--yes', '--no-install-recommends', ...missing];
  console.log(`apt-get ${install.join(' ')}`);
  spawnSync('apt-get', install, { stdio: 'inherit' });
  return listMissing();
}
