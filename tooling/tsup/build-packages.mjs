#!/usr/bin/env node
/**
 * npm run build:packages: builds what is not built yet of all packages and apps with tsup, in one process and
 * without declarations. A process for each package, as `turbo run build` starts them, takes four times the
 * CPU time, most of it to start pnpm and to load tsup.
 */
import { createHash } from 'node:crypto';
import { existsSync, mkdirSync, readdirSync, readFileSync, writeFileSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { answerHelp } from '../bootstrap/answer-help.mjs';

const readJson = (path) => JSON.parse(readFileSync(path, 'utf8'));

/** Folders that no build reads. */
const unread = new Set(['node_modules', 'dist', 'build', 'test', 'bench', 'fixtures']);

function addFiles(hash, folder, isLeftOut) {
  const entries = readdirSync(folder, { withFileTypes: true }).sort((a, b) => (a.name < b.name ? -1 : 1));
  for (const entry of entries) {
    if (isLeftOut(entry.name)) continue;
    const path = join(folder, entry.name);
    hash.update(`${entry.name}\0`);
    if (entry.isDirectory()) addFiles(hash, path, isLeftOut);
    else if (entry.isFile()) hash.update(createHash('sha256').update(readFileSync(path)).digest());
  }
}

function hashOf(folders, others = [], isLeftOut = (name) => unread.has(name)) {
  const hash = createHash('sha256');
  for (const folder of folders) addFiles(hash, folder, isLeftOut);
  for (const other of others) hash.update(`${other}\0`);
  return hash.digest('hex');
}

/** What a build has written, without the declarations that `turbo run build` may have added. */
function outputsOf(folder) {
  const dist = join(folder, 'dist');
  return existsSync(dist) ? hashOf([dist], [], (name) => name.endsWith('.d.ts')) : 'none';
}

/** Packages and apps that tsup builds, lower ones first: { name, folder, inputs }. */
function packagesOf(root) {
  const folders = ['packages', 'apps'].flatMap((kind) =>
    existsSync(join(root, kind)) ? readdirSync(join(root, kind)).map((entry) => join(root, kind, entry)) : [],
  );
  const manifests = new Map(
    folders
      .filter((folder) => existsSync(join(folder, 'tsup.config.ts')))
      .map((folder) => [folder, readJson(join(folder, 'package.json'))]),
  );
  const folderOf = new Map([...manifests].map(([folder, { name }]) => [name, folder]));
  // bundled into some packages, and what all are built with
  const common = hashOf(
    ['native', 'tsup', 'tsconfig'].map((entry) => join(root, 'tooling', entry)),
    [readFileSync(join(root, 'pnpm-lock.yaml'), 'utf8')],
  );
  const ordered = new Map();
  const visit = (folder) => {
    const { name, dependencies = {}, devDependencies = {} } = manifests.get(folder);
    const lower = Object.keys({ ...dependencies, ...devDependencies }).filter((each) => folderOf.has(each));
    for (const each of lower) if (!ordered.has(each)) visit(folderOf.get(each));
    const inputs = hashOf([folder], [common, ...lower.map((each) => ordered.get(each).inputs)]);
    ordered.set(name, { name, folder, inputs });
  };
  for (const [folder, { name }] of manifests) if (!ordered.has(name)) visit(folder);
  return [...ordered.values()];
}

/**
 * Builds the packages and apps of the checkout `root` whose sources, or those of a lower package, changed
 * since `stamps` was written, or whose dist/ is not what was built then. Returns their names.
 *
 * @throws Error of tsup, with the name of the package
 */
export async function buildPackages({ root, stamps }) {
  const written = existsSync(stamps) ? readJson(stamps) : {};
  const isBuilt = ({ name, folder, inputs }) =>
    written[name]?.inputs === inputs && written[name].outputs === outputsOf(folder);
  const stale = packagesOf(root).filter((each) => !isBuilt(each));
  if (stale.length === 0) return [];
  process.env.MTL_DECLARATIONS = '0'; // the configuration of the packages reads it
  const { build } = await import('tsup');
  mkdirSync(dirname(stamps), { recursive: true });
  const before = process.cwd();
  try {
    for (const { name, folder, inputs } of stale) {
      process.chdir(folder); // tsup reads the configuration of the working directory
      await build({ silent: true }).catch((error) => {
        throw new Error(`${name}: ${error.message}`, { cause: error });
      });
      written[name] = { inputs, outputs: outputsOf(folder) };
      writeFileSync(stamps, JSON.stringify(written, null, 2));
    }
  } finally {
    process.chdir(before);
  }
  return stale.map(({ name }) => name);
}

if (process.argv[1] === fileURLToPath(import.meta.url)) {
  answerHelp(`usage: npm run build:packages

Builds what is not built yet of all packages and apps, without declarations (npm run build makes them).`);
  const root = fileURLToPath(new URL('../..', import.meta.url));
  try {
    await buildPackages({ root, stamps: join(root, 'tooling', 'build', 'packages.json') });
  } catch (error) {
    console.error(`error[MTL_BUILD]: ${error.message}`);
    process.exitCode = 1;
  }
}
