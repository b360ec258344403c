#!/usr/bin/env node
/**
 * npm run dev -- boundaries: checks that packages depend only on lower layers, that they import only packages
 * in their package.json, that no relative import leaves its package, and that packages for pages do not
 * import more Node.js modules than before.
 */
import { execFileSync } from 'node:child_process';
import { existsSync, readFileSync } from 'node:fs';
import { isBuiltin } from 'node:module';
import { basename, dirname, join } from 'node:path';
import { fileURLToPath } from 'node:url';
import typescript from 'typescript';

/**
 * For each package, the packages that it may import directly. A package may also import @mtl/tooling, and
 * everything that its direct imports may import.
 */
const mayImport = {
  errors: [],
  kernels: ['errors'],
  layout: ['errors'],
  tokenizers: ['errors'],
  'chat-templates': ['errors'],
  hub: ['errors'],
  data: ['layout', 'tokenizers', 'chat-templates'],
  comm: ['kernels', 'layout'],
  autograd: ['kernels', 'layout'],
  pipeline: ['comm'],
  checkpoint: ['comm'],
  'tensor-parallel': ['autograd', 'comm'],
  'context-parallel': ['tensor-parallel'],
  optimizer: ['autograd', 'comm'],
  inference: ['pipeline', 'tensor-parallel'],
  models: ['pipeline', 'tensor-parallel'],
  formats: ['models', 'checkpoint'],
  trainer: ['pipeline', 'optimizer', 'checkpoint'],
  tracking: ['trainer', 'hub'],
  configuration: ['formats', 'optimizer', 'context-parallel', 'data'],
  'cost-model': ['pipeline'],
  'run-records': ['configuration', 'tracking'],
  runs: ['run-records', 'inference'],
  planning: ['runs', 'cost-model'],
  dashboard: ['runs'],
  'bert-tasks': ['planning'],
  cli: ['bert-tasks', 'dashboard'],
  'gpt-train': ['planning', 'dashboard'],
  'bert-train': ['bert-tasks', 'dashboard'],
};

/**
 * The packages that are meant to run in a web page, with the number of imports of Node.js modules in their
 * sources. A change that removes imports must lower the number here. No number may rise. Code that a page
 * loads gets Node.js modules from process.getBuiltinModule where it uses them.
 */
const importsOfNode = {
  kernels: 6,
  comm: 27,
  autograd: 0,
  'tensor-parallel': 0,
  models: 0,
  optimizer: 0,
  pipeline: 1,
  inference: 4,
  trainer: 5,
  tokenizers: 7,
};

/** Returns all packages that `name` may depend on, directly or indirectly. */
function allowed(name, found = new Set()) {
  for (const lower of mayImport[name]) {
    if (found.has(lower)) continue;
    found.add(lower);
    allowed(lower, found);
  }
  return found;
}

const short = (name) => name.replace(/^@mtl\//, '');

/** Returns the names of all dependencies in a manifest, of every kind. */
function listedIn({ dependencies, devDependencies, peerDependencies, optionalDependencies }) {
  return Object.keys({ ...dependencies, ...devDependencies, ...peerDependencies, ...optionalDependencies });
}

/**
 * Returns the problems in a package's dependencies. `manifests`: the package.json contents of all packages in
 * the workspace, by name.
 */
function checkLayer({ folder, manifest }, manifests) {
  const name = short(manifest.name);
  if (!/^(packages|apps)\//.test(folder)) return [];
  if (!Object.hasOwn(mayImport, name)) {
    return [`${folder}: mayImport of tooling/checks/boundaries.mjs has no entry "${name}"`];
  }
  const lower = allowed(name);
  return listedIn(manifest)
    .filter((each) => manifests.has(each) && manifests.get(each).folder.startsWith('packages/'))
    .filter((each) => !lower.has(short(each)))
    .map((each) => `${folder}/package.json: ${each} is no lower layer of ${manifest.name}`);
}

/**
 * Returns the problems in a source's imports: packages that package.json does not list, and paths that lead
 * out of the package.
 */
function checkImports(path, text, { folder, manifest }) {
  const listed = new Set([manifest.name, ...listedIn(manifest)]);
  const { importedFiles } = typescript.preProcessFile(text, true, true);
  return importedFiles.flatMap(({ fileName: name, pos }) => {
    const line = text.slice(0, pos).split('\n').length;
    if (name.startsWith('.')) {
      const isInside = join(dirname(path), name).startsWith(`${folder}/`);
      // programs in tooling/measure may import sources and tests of packages
      return isInside || folder === 'tooling/measure'
        ? []
        : [`${path}:${line}: ${name} is a file of another package: import its name`];
    }
    if (isBuiltin(name) || name.startsWith('/')) return [];
    const imported = name
      .split('/')
      .slice(0, name.startsWith('@') ? 2 : 1)
      .join('/');
    return listed.has(imported) ? [] : [`${path}:${line}: ${folder}/package.json does not list ${imported}`];
  });
}

/**
 * Returns the problems in the packages that are meant to run in a page. `sources`: the paths of all packages'
 * sources.
 */
function checkPages(sources) {
  return Object.entries(importsOfNode).flatMap(([name, expected]) => {
    const imports = sources
      .filter((path) => path.startsWith(`packages/${name}/src/`) && !/\.test\.ts$/.test(path))
      .flatMap((path) =>
        typescript
          .preProcessFile(readFileSync(join(root, path), 'utf8'), true, true)
          .importedFiles.filter(({ fileName }) => isBuiltin(fileName))
          .map(({ fileName }) => `${path} (${fileName})`),
      );
    if (imports.length === expected) return [];
    const change = imports.length > expected ? 'a page has none of these' : 'lower the number';
    return [
      `packages/${name}: ${imports.length} imports of Node's modules, expected ${expected} as importsOfNode of tooling/checks/boundaries.mjs says; ${change}: ${imports.join(', ')}`,
    ];
  });
}

const root = fileURLToPath(new URL('../..', import.meta.url));
const files = execFileSync('git', ['ls-files', '--cached', '--others', '--exclude-standard'], {
  cwd: root,
  encoding: 'utf8',
})
  .split('\n')
  .filter((path) => path !== '' && existsSync(join(root, path)));
const packages = files
  .filter((path) => basename(path) === 'package.json' && /^(packages|apps|platforms|tooling)\//.test(path))
  .filter((path) => !path.includes('/fixtures/'))
  .map((path) => ({
    folder: dirname(path),
    manifest: JSON.parse(readFileSync(join(root, path), 'utf8')),
  }));
const manifests = new Map(packages.map((each) => [each.manifest.name, each]));
/**
 * Returns the package that contains the file `path`: the deepest folder above the file that has a
 * package.json.
 */
const findPackage = (path) =>
  packages
    .filter(({ folder }) => path.startsWith(`${folder}/`))
    .sort((a, b) => b.folder.length - a.folder.length)[0];
const sources = files.filter((path) => /\.m?[jt]s$/.test(path) && findPackage(path) !== undefined);
const problems = [
  ...packages.flatMap((each) => checkLayer(each, manifests)),
  ...sources.flatMap((path) => checkImports(path, readFileSync(join(root, path), 'utf8'), findPackage(path))),
  ...checkPages(sources),
];
for (const problem of problems) console.error(problem);
if (problems.length > 0) process.exit(1);
console.log(`boundaries: ${sources.length} sources of ${packages.length} packages import what they may`);
