import { execFile, spawnSync } from 'node:child_process';
import { mkdirSync, readdirSync, readFileSync, writeFileSync } from 'node:fs';
import { delimiter, join } from 'node:path';
import { fileURLToPath } from 'node:url';

export const root = fileURLToPath(new URL('../..', import.meta.url));
export const binaries = join(root, 'node_modules', '.bin');

/** How commands run: with the checkout's tools first on PATH. */
const optionsOf = ({ cwd = root, env = {} } = {}) => ({
  cwd,
  encoding: 'utf8',
  maxBuffer: 1 << 28,
  env: {
    ...process.env,
    PATH: `${binaries}${delimiter}${process.env.PATH}`,
    NODE_OPTIONS: '',
    TURBO_TELEMETRY_DISABLED: '1',
    npm_config_loglevel: 'error',
    ...env,
  },
});

/**
 * Runs a command with the checkout's tools first on PATH and returns its status and everything it printed.
 */
export function run(command, args, options) {
  const { status, stdout = '', stderr = '', error } = spawnSync(command, args, optionsOf(options));
  return { status, stdout, output: `${stdout}${stderr}${error === undefined ? '' : error.message}` };
}

/** The same, asynchronously, so that several can run at once. */
export function runConcurrently(command, args, options) {
  return new Promise((resolve) => {
    const child = execFile(command, args, optionsOf(options), (error, stdout, stderr) => {
      const failure = typeof error?.code === 'string' ? error.message : '';
      resolve({ status: child.exitCode, stdout, output: `${stdout}${stderr}${failure}` });
    });
  });
}

/** The manifests of all packages that are published, by name. */
export function publishedPackages() {
  const manifests = readdirSync(join(root, 'packages'))
    .map((folder) => JSON.parse(readFileSync(join(root, 'packages', folder, 'package.json'), 'utf8')))
    .filter((manifest) => manifest.private !== true);
  return new Map(manifests.map((manifest) => [manifest.name, manifest]));
}

/** `name` and every published package that it depends on, directly or not. */
export function withDependencies(name, packages = publishedPackages()) {
  const found = new Set([name]);
  for (const each of found) {
    for (const dependency of Object.keys(packages.get(each).dependencies ?? {})) {
      if (packages.has(dependency)) found.add(dependency);
    }
  }
  return [...found];
}

/** Packs every published package as a release would, into `directory`; returns the tarballs by name. */
export function packPackages(directory) {
  mkdirSync(directory, { recursive: true });
  const packed = run('pnpm', ['-r', '--filter', './packages/*', 'pack', '--pack-destination', directory]);
  if (packed.status !== 0) throw new Error(packed.output);
  return new Map(
    [...publishedPackages().values()].map(({ name, version }) => [
      name,
      join(directory, `${name.replace('@', '').replace('/', '-')}-${version}.tgz`),
    ]),
  );
}

/**
 * Installs one package with the packages of this repository below it into an empty folder, as a user's npm
 * would: ours from their tarballs, others from the registry or npm's cache, and no install script runs.
 */
export async function installPackage({ name, tarballs, directory }) {
  mkdirSync(directory, { recursive: true });
  writeFileSync(join(directory, 'package.json'), '{ "private": true, "type": "module" }\n');
  const files = withDependencies(name).map((each) => tarballs.get(each));
  const flags = ['--prefer-offline', '--ignore-scripts', '--no-audit', '--no-fund'];
  const installed = await runConcurrently('npm', ['install', ...flags, ...files], { cwd: directory });
  if (installed.status !== 0) throw new Error(installed.output);
  return join(directory, 'node_modules', name);
}

/** Whether packages that are not ours can be had: from npm's cache or from the registry. */
export function canInstall() {
  const flags = ['--prefer-offline', '--fetch-retries=0', '--fetch-timeout=10000'];
  return run('npm', ['view', 'node-addon-api', 'version', ...flags]).status === 0;
}
