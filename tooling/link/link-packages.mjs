#!/usr/bin/env node
/**
 * mtl-link: makes the packages of this checkout available, with types, in a folder elsewhere. A link to
 * packages/ would be dangerous: npm follows the link and removes files that npm did not install, including
 * sources. Therefore mtl-link writes small packages that import built files of the checkout. The folder
 * depends on the small packages as on any local package, and npm does not change them.
 */
import { spawnSync } from 'node:child_process';
import {
  existsSync,
  lstatSync,
  mkdirSync,
  readdirSync,
  readFileSync,
  realpathSync,
  rmSync,
  unlinkSync,
  writeFileSync,
} from 'node:fs';
import { basename, dirname, join, resolve } from 'node:path';
import { fileURLToPath, pathToFileURL } from 'node:url';
import { answerHelp } from '../bootstrap/answer-help.mjs';
import { bootstrap, root } from '../bootstrap/bootstrap.mjs';
import { publishedPackages } from '../packaging/packed-packages.mjs';

/** The name of the subfolder with the small packages. */
const folderName = 'mtl-packages';

/**
 * The first line of the subfolder's .gitignore. It distinguishes the subfolder from a folder that the user
 * made.
 */
const mark = '# made by mtl-link';

/** Returns the checkout's published packages as { folder, manifest }. */
const packagesOfCheckout = () =>
  [...publishedPackages().values()].map((manifest) => ({
    folder: join(root, 'packages', basename(manifest.name)),
    manifest,
  }));

/**
 * Returns a package's entry points, each with the name of the export, its file name without extension, the
 * built code and the declarations.
 */
function listEntries({ folder, manifest }) {
  return Object.entries(manifest.publishConfig.exports).map(([exported, { default: code, types }]) => ({
    exported,
    name: exported === '.' ? 'index' : exported.slice(2),
    code: join(folder, code),
    types: join(folder, types),
  }));
}

function write(path, text) {
  mkdirSync(dirname(path), { recursive: true });
  writeFileSync(path, text);
}

/** Writes to `target` the small package that forwards to the given package of the checkout. */
function writeForwarder(target, { folder, manifest }) {
  const { name, version, description, license, type, engines, bin = {} } = manifest;
  const entries = listEntries({ folder, manifest });
  for (const { name: entry, code, types } of entries) {
    write(join(target, `${entry}.js`), `export * from ${JSON.stringify(pathToFileURL(code).href)};\n`);
    // TypeScript finds a declaration file by its code file's name
    const declared = types.replace(/\.d\.ts$/, '.js');
    write(join(target, `${entry}.d.ts`), `export * from ${JSON.stringify(declared)};\n`);
  }
  for (const [command, path] of Object.entries(bin)) {
    const program = pathToFileURL(join(folder, path)).href;
    write(
      join(target, 'bin', `${command}.mjs`),
      `#!/usr/bin/env node\nawait import(${JSON.stringify(program)});\n`,
    );
  }
  const exported = entries.map(({ exported, name: entry }) => [
    exported,
    { types: `./${entry}.d.ts`, default: `./${entry}.js` },
  ]);
  const commands = Object.keys(bin).map((command) => [command, `bin/${command}.mjs`]);
  const forwarder = {
    name,
    version,
    private: true,
    description,
    license,
    type,
    engines,
    exports: { ...Object.fromEntries(exported), './package.json': './package.json' },
    bin: Object.fromEntries(commands),
  };
  write(join(target, 'package.json'), `${JSON.stringify(forwarder, null, 2)}\n`);
}

/**
 * Reads the package.json of the folder that uses the packages. Returns a new manifest if the folder has none.
 */
function readManifest(path) {
  if (!existsSync(path)) return { private: true, type: 'module' };
  const correct = 'correct the file, then call mtl-link again';
  let manifest;
  try {
    manifest = JSON.parse(readFileSync(path, 'utf8'));
  } catch (error) {
    return refuse(`${path} cannot be read: ${error.message}`, correct);
  }
  const isObject = typeof manifest === 'object' && manifest !== null && !Array.isArray(manifest);
  return isObject ? manifest : refuse(`${path} is not a JSON object`, correct);
}

/**
 * Removes the small packages of an earlier call. Throws an error if the folder mtl-packages was not made by
 * mtl-link.
 */
function removeForwarders(folder) {
  const path = join(folder, folderName);
  if (!existsSync(path)) return;
  const ignored = join(path, '.gitignore');
  if (!existsSync(ignored) || !readFileSync(ignored, 'utf8').startsWith(mark))
    refuse(`${path} exists, and mtl-link has not made it`, 'rename the folder, or link in another one');
  rmSync(path, { recursive: true });
}

function refuse(problem, remedy) {
  console.error(`error[MTL_LINK]: ${problem}\n  remedy: ${remedy}`);
  return process.exit(2);
}

/** Removes links to the packages of a checkout, but not the packages. */
function removeDirectLinks(folder) {
  const scope = join(folder, 'node_modules', '@mtl');
  const isLink = (path) => lstatSync(path, { throwIfNoEntry: false })?.isSymbolicLink() === true;
  if (isLink(scope)) unlinkSync(scope);
  if (!existsSync(scope)) return;
  for (const name of readdirSync(scope)) if (isLink(join(scope, name))) unlinkSync(join(scope, name));
}

/** If the folder has no tsconfig.json, writes one for programs that tsx or Node.js run without a build. */
function writeTypeScriptOptions(folder) {
  const path = join(folder, 'tsconfig.json');
  if (existsSync(path)) return;
  const compilerOptions = {
    strict: true,
    module: 'nodenext',
    target: 'es2022',
    noEmit: true,
    allowImportingTsExtensions: true,
    skipLibCheck: true,
  };
  write(path, `${JSON.stringify({ compilerOptions }, null, 2)}\n`);
}

/**
 * Returns the environment for npm in the folder. If npm has started this process, the variables that npm has
 * set (above all its prefix) are omitted.
 */
function environmentOfNpm() {
  return Object.fromEntries(Object.entries(process.env).filter(([name]) => !/^npm_|^INIT_CWD$/i.test(name)));
}

/**
 * Makes the packages of this checkout dependencies of `folder`: writes small packages to its subfolder
 * mtl-packages, adds them to its package.json, and installs them with npm. Writes a tsconfig.json if the
 * folder has none.
 * @returns the names of the packages
 */
export function linkPackages(folder) {
  const packages = packagesOfCheckout();
  const manifestPath = join(folder, 'package.json');
  const manifest = readManifest(manifestPath);
  removeForwarders(folder);
  removeDirectLinks(folder);
  write(join(folder, folderName, '.gitignore'), `${mark}: the packages name paths of this machine\n*\n`);
  const names = packages.map(({ manifest: { name } }) => name);
  for (const each of packages) writeForwarder(join(folder, folderName, basename(each.folder)), each);
  const dependencies = Object.fromEntries(
    names.map((name) => [name, `file:${folderName}/${basename(name)}`]),
  );
  const text = { ...manifest, dependencies: { ...manifest.dependencies, ...dependencies } };
  write(manifestPath, `${JSON.stringify(text, null, 2)}\n`);
  writeTypeScriptOptions(folder);
  const { status, error } = spawnSync('npm', ['install', '--no-audit', '--no-fund', '--loglevel=error'], {
    cwd: folder,
    env: environmentOfNpm(),
    stdio: ['ignore', 'ignore', 'inherit'],
  });
  if (status !== 0)
    refuse(
      `npm install in ${folder} failed: ${error?.message ?? `status ${status}`}`,
      'npm install there shows why',
    );
  return names;
}

/** Returns true if everything that a linked folder needs is built: code, declarations and native code. */
function isBuilt() {
  const entries = packagesOfCheckout().flatMap(listEntries);
  const hasAddon = (name) =>
    [
      join(root, 'packages', name, 'build/Release', `mtl_${name}.node`),
      join(root, 'platforms', `${name}-linux-${process.arch}`, `mtl_${name}.node`),
    ].some((path) => existsSync(path));
  const hasNative = ['kernels', 'comm'].every(hasAddon);
  return hasNative && entries.every(({ code, types }) => existsSync(code) && existsSync(types));
}

// the command mtl-link is a link to this file, so resolved paths are compared
if (process.argv[1] !== undefined && realpathSync(process.argv[1]) === fileURLToPath(import.meta.url)) {
  answerHelp(`usage: mtl-link [FOLDER]

Makes the packages of this command's checkout the packages of FOLDER (default: the shell's), with types: writes
small packages into FOLDER/mtl-packages, names them in its package.json, and runs npm install. Builds what is not
built yet. Call it again when a new version of the checkout has other packages, or when the checkout has moved.`);
  const [given = '.', ...more] = process.argv.slice(2);
  const folder = resolve(given);
  if (more.length > 0 || given.startsWith('-'))
    refuse(`${[given, ...more].join(' ')} is no folder`, 'mtl-link --help');
  if (!existsSync(folder)) refuse(`${folder} does not exist`, `mkdir ${folder}`);
  if (`${folder}/`.startsWith(root)) refuse(`${folder} is in the checkout`, 'call it in a folder elsewhere');
  if (!isBuilt()) bootstrap(['build', 'build:native'], [], { declarations: true, isForThisMachine: true });
  const names = linkPackages(folder);
  console.log(`${names.length} packages of ${root.replace(/\/$/, '')} in ${folder}`);
}
