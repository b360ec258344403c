import { spawnSync } from 'node:child_process';
import { existsSync, mkdirSync, readdirSync, readFileSync, renameSync, rmSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { runStep } from './run-step.mjs';

const keyring = '/usr/share/keyrings/debian-archive-keyring.gpg';

/** Returns a field of /etc/os-release. */
export function osRelease(field) {
  return new RegExp(`^${field}="?([^"\n]*)`, 'm').exec(readFileSync('/etc/os-release', 'utf8'))?.[1];
}

/** Returns the address of the Debian mirror from which this machine installs packages. */
export function mirrorOfMachine() {
  const release = osRelease('VERSION_CODENAME');
  const format = ['--format', '$(SITE)', 'Created-By: Packages', `Codename: ${release}`];
  const [site] = runStep('apt-get', ['indextargets', ...format]).split('\n');
  if (site) return site;
  throw new Error(`apt knows no mirror of Debian ${release}: run apt-get update`);
}

/**
 * Returns options for apt, with which it uses a separate list of sources below `directory`, and does not
 * change the machine's own lists and caches.
 */
function aptOptions({ directory, release }) {
  const lists = join(directory, `lists-${release}`);
  mkdirSync(join(lists, 'partial'), { recursive: true });
  const mirror = mirrorOfMachine();
  const sources = join(directory, `sources-${release}.list`);
  writeFileSync(sources, `deb-src [signed-by=${keyring}] ${mirror} ${release} main\n`);
  return [
    `Dir::Etc::sourcelist=${sources}`,
    'Dir::Etc::sourceparts=-',
    `Dir::State::lists=${lists}`,
    'Dir::Cache::pkgcache=',
    'Dir::Cache::srcpkgcache=',
    'APT::Sandbox::User=root', // downloads go into our folder
  ].flatMap((option) => ['-o', option]);
}

/**
 * Downloads the sources of a Debian package with Debian's patches, and unpacks them below `directory`, unless
 * they are already there. apt verifies them with the signed index. `release` may be newer than the release on
 * which the sources are compiled, because only the glibc of the compiling release determines on which
 * machines the result runs. Returns the folder and the version.
 */
export function debianSource({ name, directory, release = 'trixie' }) {
  const unpacked = join(directory, name);
  if (!existsSync(unpacked)) {
    if (osRelease('ID') !== 'debian' || spawnSync('dpkg-source', ['--version']).status !== 0) {
      throw new Error(
        `the sources of ${name} are taken from Debian: run this on Debian, with dpkg-dev installed`,
      );
    }
    const downloads = join(directory, `${name}-downloads`);
    rmSync(downloads, { recursive: true, force: true });
    mkdirSync(downloads, { recursive: true });
    const options = aptOptions({ directory, release });
    runStep('apt-get', [...options, 'update', '-qq']);
    runStep('apt-get', [...options, 'source', '-qq', '--download-only', name], { cwd: downloads });
    const description = readdirSync(downloads).find((file) => file.endsWith('.dsc'));
    const partial = `${unpacked}.partial`;
    rmSync(partial, { recursive: true, force: true });
    // --no-check, because apt has checked the hashes against the signed index
    runStep('dpkg-source', ['--no-check', '-x', join(downloads, description), partial]);
    renameSync(partial, unpacked);
  }
  const changelog = readFileSync(join(unpacked, 'debian', 'changelog'), 'utf8');
  return { folder: unpacked, version: /\(([^)]+)\)/.exec(changelog)[1] };
}
