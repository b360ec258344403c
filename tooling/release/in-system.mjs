import { spawnSync } from 'node:child_process';
import { cpSync, existsSync, mkdirSync } from 'node:fs';
import { dirname, join, resolve } from 'node:path';
import { fileURLToPath } from 'node:url';
import { runStep } from './run-step.mjs';

const registry = fileURLToPath(new URL('local-registry.mjs', import.meta.url));
const script = fileURLToPath(new URL('in-system.sh', import.meta.url));

/** The address of the registry, for commands that run in the root file system. */
export const registryAddress = 'http://127.0.0.1:4873';

/**
 * An address that two hosts of a job may have in common. It is reserved for examples, and the loopback
 * interface answers it.
 */
export const hostAddress = '192.0.2.1';

/**
 * Runs a command in a separate root file system, whose only network is a registry on loopback. Requires the
 * user root.
 *
 * @param {object} options
 * @param {string} options.system the root file system
 * @param {readonly string[]} options.folders the folders with the tarballs that the registry serves
 * @param {readonly string[]} options.command the command and its arguments, with paths in that file system
 * @param {Readonly<Record<string, string>>} [options.env] the complete environment of the command
 * @param {number} options.timeoutMs
 * @returns {{ status: number | null, stdout: string, output: string }} `output` is everything that the
 * command printed
 */
export function runInSystem({ system, folders, command, env = {}, timeoutMs }) {
  const inside = [system, process.execPath, registry, hostAddress, ...folders, '--', ...command];
  const {
    status,
    stdout = '',
    stderr = '',
    error,
  } = spawnSync(
    'unshare',
    ['--net', '--mount', '--pid', '--fork', '--kill-child', 'bash', script, ...inside],
    {
      encoding: 'utf8',
      timeout: timeoutMs,
      killSignal: 'SIGKILL',
      maxBuffer: 1 << 26,
      env: { PATH: process.env.PATH, ...env },
    },
  );
  const failure = error === undefined ? '' : error.message;
  return { status, stdout, output: `${stdout}${stderr}${failure}` };
}

/** Downloads packages to `folder` unless they are already there. Returns their tarballs by `NAME@VERSION`. */
export function downloadPackages(names, folder) {
  mkdirSync(folder, { recursive: true });
  const locate = (name) => join(folder, `${name.replace(/^@/, '').replaceAll(/[@/]/g, '-')}.tgz`);
  const missing = names.filter((name) => !existsSync(locate(name)));
  if (missing.length > 0) runStep('npm', ['pack', '--silent', '--pack-destination', folder, ...missing]);
  return new Map(names.map((name) => [name, locate(name)]));
}

/** Unpacks a package to `folder`, without the top folder of its tarball. */
export function unpackPackage(tarball, folder) {
  mkdirSync(folder, { recursive: true });
  runStep('tar', ['xzf', tarball, '--strip-components=1', '-C', folder]);
}

/** Copies the npm that belongs to this process's Node.js to /opt/npm in a root file system. */
export function copyNpm(system) {
  const npm = resolve(dirname(process.execPath), '../lib/node_modules/npm');
  cpSync(npm, join(system, 'opt', 'npm'), { recursive: true, verbatimSymlinks: true });
}
