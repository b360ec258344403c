#!/usr/bin/env node
/**
 * npm run dev -- build:packages, npm run dev -- build:types: builds all packages and apps that are not up to
 * date with tsup, without and with declarations. A single process builds all packages: a process per package
 * would take four times the CPU time, mostly to start pnpm and to load tsup.
 */
import { createHash } from 'node:crypto';
import { existsSync, mkdirSync, readdirSync, readFileSync, renameSync, rmSync, writeFileSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { answerHelp } from '../bootstrap/answer-help.mjs';
import { entryPoints } from './entry-points.mjs';
import {
  isDeclaration,
  listFiles,
  locateStamps,
  publishDeclarations,
  publishFolder,
} from './publish-folder.mjs';

const defaultConfig = fileURLToPath(new URL('./default.config.mjs', import.meta.url));
/**
 * Returns the build configuration of the package in `folder`: the package's own configuration if it has one,
 * otherwise the default.
 */
const findConfig = (folder) =>
  [join(folder, 'tsup.config.ts'), defaultConfig].find((path) => existsSync(path));

const readJson = (path) => JSON.parse(readFileSync(path, 'utf8'));

/**
 * The prefix of the name of the folder in which a package is built; the process id follows. The folder is
 * next to dist/, so that relative paths in source maps stay valid.
 */
const asideName = 'dist-aside-';

/** Folders that no build reads. */
const unread = new Set(['node_modules', 'dist', 'build', 'test', 'bench', 'fixtures']);
/**
 * Returns true for the name of a file or folder that no build reads: a name in `unread`, a hidden folder such
 * as turbo's logs, or the folder of a build in progress.
 */
const isUnread = (name) => unread.has(name) || name.startsWith('.') || name.startsWith(asideName);

function addFiles(hash, folder) {
  const entries = readdirSync(folder, { withFileTypes: true }).sort((a, b) => (a.name < b.name ? -1 : 1));
  for (const entry of entries) {
    if (isUnread(entry.name)) continue;
    const path = join(folder, entry.name);
    hash.update(`${entry.name}\0`);
    if (entry.isDirectory()) addFiles(hash, path);
    else if (entry.isFile()) hash.update(hashOfFile(path));
  }
}

function hashOfFile(path) {
  return createHash('sha256').update(readFileSync(path)).digest();
}

function computeHash(folders, others = []) {
  const hash = createHash('sha256');
  for (const folder of folders) addFiles(hash, folder);
  for (const other of others) hash.update(`${other}\0`);
  return hash.digest('hex');
}

/**
 * Returns a digest of the files in dist/ for which `isWanted` is true (either the code or the declarations),
 * without the files in `superseded`, which remain from earlier builds.
 */
function digestOutputs(folder, isWanted, superseded = {}) {
  const dist = join(folder, 'dist');
  const paths = listFiles(dist).filter((path) => isWanted(path) && superseded[path] === undefined);
  if (paths.length === 0) return 'none';
  const hash = createHash('sha256');
  for (const path of paths.sort()) hash.update(`${path}\0`).update(hashOfFile(join(dist, path)));
  return hash.digest('hex');
}

const isCode = (path) => !isDeclaration(path);

/**
 * Returns the packages and apps that tsup builds, as { name, folder, inputs }. A package comes after the
 * packages on which it depends. `inputs` is a digest of the sources, including the sources of these lower
 * packages.
 */
function listPackages(root) {
  const folders = ['packages', 'apps'].flatMap((kind) =>
    existsSync(join(root, kind)) ? readdirSync(join(root, kind)).map((entry) => join(root, kind, entry)) : [],
  );
  const manifests = new Map(
    folders
      .filter((folder) => existsSync(join(folder, 'src')))
      .map((folder) => [folder, readJson(join(folder, 'package.json'))]),
  );
  const folderByName = new Map([...manifests].map(([folder, { name }]) => [name, folder]));
  // inputs for all builds: tools, some of which are bundled into packages, and settings
  const common = computeHash(
    ['native', 'tsup'].map((entry) => join(root, 'tooling', entry)),
    ['pnpm-lock.yaml', 'tsconfig.json'].map((entry) => readFileSync(join(root, entry), 'utf8')),
  );
  const ordered = new Map();
  const visit = (folder) => {
    const { name, dependencies = {}, devDependencies = {} } = manifests.get(folder);
    const lower = Object.keys({ ...dependencies, ...devDependencies }).filter((each) =>
      folderByName.has(each),
    );
    for (const each of lower) if (!ordered.has(each)) visit(folderByName.get(each));
    const inputs = computeHash([folder], [common, ...lower.map((each) => ordered.get(each).inputs)]);
    ordered.set(name, { name, folder, inputs });
  };
  for (const [folder, { name }] of manifests) if (!ordered.has(name)) visit(folder);
  return [...ordered.values()];
}

/** Removes folders that killed builds have left. */
function removeOldAsides(folder) {
  for (const name of readdirSync(folder).filter((each) => each.startsWith(asideName))) {
    if (!existsSync(`/proc/${name.slice(asideName.length)}`)) rmSync(join(folder, name), { recursive: true });
  }
}

/** Builds a package into the folder `aside`, without declarations. */
async function buildCode({ name, folder }, aside) {
  const { build } = await import('tsup');
  process.env.MTL_BUILD_FOLDER = aside;
  process.chdir(folder); // tsup builds the package of the working directory
  await build({ silent: true, config: findConfig(folder) }).catch((error) => {
    throw new Error(`${name}: ${error.message}`, { cause: error });
  });
}

function writeStamps(stamps, written) {
  mkdirSync(dirname(stamps), { recursive: true });
  writeFileSync(`${stamps}.${process.pid}`, JSON.stringify(written, null, 2));
  renameSync(`${stamps}.${process.pid}`, stamps);
}

/** Builds the code of `packages` in separate folders, and moves all builds into place at the end. */
async function buildAllCode(packages, written) {
  const before = process.cwd();
  const aside = `${asideName}${process.pid}`;
  try {
    for (const { folder } of packages) removeOldAsides(folder);
    for (const each of packages) await buildCode(each, aside);
    for (const { name, folder, inputs } of packages) {
      const superseded = publishFolder({
        aside: join(folder, aside),
        target: join(folder, 'dist'),
        superseded: written[name]?.superseded,
      });
      const outputs = digestOutputs(folder, isCode, superseded);
      written[name] = { inputs, outputs, declared: digestOutputs(folder, isDeclaration), superseded };
    }
  } finally {
    for (const { folder } of packages) rmSync(join(folder, aside), { recursive: true, force: true });
    process.chdir(before);
  }
}

/** Makes the declarations of all packages, and copies the declarations of `packages` to their places. */
async function buildDeclarations({ root, all, packages, written }) {
  const { makeDeclarations } = await import('./declarations.mjs'); // loads the compiler
  const entries = new Map(all.map(({ folder }) => [folder, entryPoints(folder)]));
  const made = makeDeclarations({ root, entries });
  for (const { name, folder } of packages) {
    publishDeclarations({ texts: made.get(folder), target: join(folder, 'dist') });
    written[name].declared = digestOutputs(folder, isDeclaration);
  }
}

/**
 * Builds the packages and apps of the checkout `root` that are not up to date: their sources or a lower
 * package's sources have changed since `stamps` was written, or their dist/ has changed. Returns their names.
 * Commands that run during the build always find complete builds, because new builds are made in separate
 * folders, and all are moved into place at the end.
 *
 * @param declarations true to build declarations, too, for all packages whose declarations do not match the
 *   code.
 *   Default: only if a package already has declarations
 * @throws Error of tsup, whose message begins with the package's name (no code is then moved into place); or
 * an
 *   error that lists the types that declarations cannot name (no declarations are then moved into place)
 */
export async function buildPackages({ root, stamps, declarations = false }) {
  const written = existsSync(stamps) ? readJson(stamps) : {};
  const hasCode = ({ name, folder, inputs }) => {
    const { inputs: before, outputs, superseded } = written[name] ?? {};
    return before === inputs && outputs === digestOutputs(folder, isCode, superseded);
  };
  const hasDeclarations = ({ name, folder }) => {
    const { declared = 'none' } = written[name];
    return declared !== 'none' && declared === digestOutputs(folder, isDeclaration);
  };
  const all = listPackages(root);
  // existing declarations are kept up to date, because editors and linked folders read them
  const wantsDeclarations =
    declarations || Object.values(written).some(({ declared = 'none' }) => declared !== 'none');
  const withoutCode = all.filter((each) => !hasCode(each));
  if (withoutCode.length > 0) {
    await buildAllCode(withoutCode, written);
    writeStamps(stamps, written);
  }
  const undeclared = wantsDeclarations ? all.filter((each) => !hasDeclarations(each)) : [];
  if (undeclared.length > 0) {
    await buildDeclarations({ root, all, packages: undeclared, written });
    writeStamps(stamps, written);
  }
  return all
    .filter((each) => withoutCode.includes(each) || undeclared.includes(each))
    .map(({ name }) => name);
}

if (process.argv[1] === fileURLToPath(import.meta.url)) {
  answerHelp(`usage: npm run dev -- build:packages
       npm run dev -- build:types

Builds what is not built yet of all packages and apps; build:types with declarations, which packing and linking
need. Commands may run meanwhile.`);
  const root = fileURLToPath(new URL('../..', import.meta.url));
  try {
    const declarations = process.argv.includes('--declarations');
    await buildPackages({ root, stamps: locateStamps(root), declarations });
  } catch (error) {
    console.error(`error[MTL_BUILD]: ${error.message}`);
    process.exitCode = 1;
  }
}
