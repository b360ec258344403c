#!/usr/bin/env node
/**
 * The steps of a release in this file's checkout, which release.mjs calls. Ends at the first step that fails.
 */
import { createHash } from 'node:crypto';
import { mkdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { bootstrap, root, toolEnvironment } from '../bootstrap/bootstrap.mjs';
import { sourceHash } from '../native/source-hash.mjs';
import { locateTarball, packPackages, publishedPackages } from '../packaging/packed-packages.mjs';
import { testBareMachine } from './bare-machine.mjs';
import { buildPlatformPackage } from './build-platform-package.mjs';
import { checkPlatformPackage } from './check-platform-package.mjs';
import {
  addonFoldersHere,
  platformFolders,
  platformFoldersToBuild,
  portableFolders,
} from './platform-folders.mjs';
import { publishOrder } from './publish-order.mjs';
import { chooseDistTag, releaseProblems, versionProblems } from './release-problems.mjs';
import { runStep } from './run-step.mjs';

const isDry = process.argv.includes('--dry-run');
const withCuda = !process.argv.includes('--without-cuda');
/** The platform packages of this release. */
const platformsHere = () => platformFoldersToBuild(root).filter(({ isAddon }) => withCuda || isAddon);
const cache = process.env.MTL_RELEASE_CACHE ?? join(root, '.cache', 'release');
const env = toolEnvironment();
const tarballs = join(root, '.cache', 'tarballs');
/** The seconds from the tarballs to the end of the first step that the README promises. */
const promisedSeconds = 15;

/** Returns the manifests of all packages that this machine publishes. */
const everything = () => [
  ...publishedPackages().values(),
  ...platformsHere().map(({ manifest }) => manifest),
  ...portableFolders(root).map(({ manifest }) => manifest),
];

function step(name, action) {
  const started = Date.now();
  console.log(`== ${name}`);
  const result = action();
  console.log(`${name}: ${((Date.now() - started) / 1000).toFixed(1)} s`);
  return result;
}

const run = (command, args, options = {}) => runStep(command, args, { cwd: root, env, ...options });

function checkReady() {
  const problems = releaseProblems({
    manifests: everything(),
    isDry,
    changes: isDry ? '' : run('git', ['status', '--porcelain']),
  });
  if (problems.length > 0) throw new Error(problems.join('\n'));
}

function raiseVersions() {
  run('changeset', ['version']);
  const manifests = [
    ...publishedPackages().values(),
    ...[...platformFolders(root), ...portableFolders(root)].map(({ manifest }) => manifest),
  ];
  const versions = manifests.map(({ version }) => version);
  // the tag is defined only in a GitHub workflow that a tag has started
  const tag = process.env.GITHUB_REF_TYPE === 'tag' ? process.env.GITHUB_REF_NAME : undefined;
  const problems = versionProblems({ versions, tag });
  if (problems.length > 0) throw new Error(problems.join('\n'));
  console.log(`version ${versions[0]}, as ${chooseDistTag(versions[0])}`);
}

function pack() {
  rmSync(tarballs, { recursive: true, force: true });
  mkdirSync(tarballs, { recursive: true });
  const packed = packPackages(tarballs);
  const platforms = [...platformsHere(), ...portableFolders(root)];
  const selection = platforms.flatMap(({ name }) => ['--filter', name]);
  run('pnpm', ['-r', ...selection, 'pack', '--pack-destination', tarballs]);
  for (const { name, manifest } of platforms) packed.set(name, locateTarball(manifest, tarballs));
  return packed;
}

function testBare(packed) {
  for (const { manager, install, training, bytes, bytesOfKernels } of testBareMachine({
    tarballs: [...packed.values()],
    cache,
  })) {
    const seconds = install + training;
    console.log(
      `${manager}: ${install} s to install ${(bytes / 1e6).toFixed(0)} MB, ${training} s to the end of the first step; ` +
        `addon of @mtl/kernels ${(bytesOfKernels / 1e6).toFixed(1)} MB`,
    );
    if (seconds > promisedSeconds) console.log(`  above the ${promisedSeconds} s that are promised`);
  }
}

function publish(packed) {
  const distTag = chooseDistTag(everything()[0].version);
  for (const name of publishOrder(everything())) {
    console.log(`${isDry ? 'would publish' : 'publishing'} ${name}`);
    if (!isDry)
      run('npm', ['publish', packed.get(name), '--access', 'public', '--provenance', '--tag', distTag]);
  }
  recordPlatformPackages(packed);
}

/**
 * Records the hashes with which a fresh checkout compares its sources and the download (see
 * tooling/bootstrap/platform-addons.mjs).
 */
function recordPlatformPackages(packed) {
  for (const { name, directory, manifest, packageOf } of addonFoldersHere(root)) {
    const digest = createHash('sha512')
      .update(readFileSync(packed.get(name)))
      .digest('base64');
    const record = {
      version: manifest.version,
      sources: sourceHash({ root, name: packageOf }),
      integrity: `sha512-${digest}`,
    };
    writeFileSync(join(directory, 'released.json'), `${JSON.stringify(record, null, 2)}\n`);
  }
  if (!isDry)
    console.log('commit the versions, changelogs and platforms/*/released.json, and tag: npx changeset tag');
}

try {
  step('ready', checkReady);
  step('packages and local build', () => bootstrap(['build', 'build:native'], [], { declarations: true }));
  step('publint, types, examples, changesets', () =>
    run('pnpm', ['exec', 'vitest', 'run', 'packaging', 'release'], { cwd: join(root, 'tooling') }),
  );
  step('versions and changelogs', raiseVersions);
  step('platform packages', () => {
    for (const platform of platformsHere()) {
      buildPlatformPackage({ root, cache, platform, withCuda });
      checkPlatformPackage(platform);
    }
    run(process.execPath, ['tooling/native/build-wasm.mjs', '--package']);
  });
  const packed = step('pack', pack);
  step('bare machine', () => testBare(packed));
  step('publish', () => publish(packed));
} catch (error) {
  console.error(`error[MTL_RELEASE]: ${error.message}`);
  process.exit(1);
}
