// Module hooks that let Node run the workspace's TypeScript. Tests start hundreds of processes that each
// import hundreds of files, so the compiled form of a file is kept until the file changes.
import { createHash } from 'node:crypto';
import { mkdirSync, readFileSync, renameSync, statSync, writeFileSync } from 'node:fs';
import { basename, join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { threadId } from 'node:worker_threads';

const folder = fileURLToPath(new URL('../build/typescript', import.meta.url));
const repository = fileURLToPath(new URL('../..', import.meta.url));
const options = { loader: 'ts', format: 'esm', target: `node${process.versions.node}` };
const mapOptions = { sourcemap: 'inline', sourcesContent: false };
let compiler;

/**
 * Called by Node with the path of the compiler. The path contains the compiler's version, so files are
 * compiled again when the version changes.
 */
export function initialize(given) {
  compiler = given.compiler;
  mkdirSync(folder, { recursive: true });
}

const digest = (...parts) => createHash('sha256').update(parts.join('\0')).digest('hex');

function read(path) {
  try {
    return readFileSync(path, 'utf8');
  } catch (error) {
    if (error.code === 'ENOENT') return undefined;
    throw error;
  }
}

async function compile(path, source) {
  const { transformSync } = await import(compiler);
  return transformSync(source, {
    ...options,
    ...mapOptions,
    sourcefile: path,
  }).code;
}

async function loadCompiled(path) {
  const source = readFileSync(path, 'utf8');
  // files outside the repository, for example in tests' temporary folders, are compiled only once, so caching
  // them would only fill the disk
  if (!path.startsWith(repository)) return await compile(path, source);
  const how = JSON.stringify({ ...options, ...mapOptions });
  const mark = `//# ${digest(compiler, process.version, how, path, source)}\n`;
  const kept = join(folder, `${basename(path)}-${digest(path).slice(0, 16)}.js`);
  const known = read(kept);
  if (known?.startsWith(mark)) return known.slice(mark.length);
  const made = await compile(path, source);
  // the file is written under a temporary name and renamed, because other processes may read or write it at
  // the same time
  const partial = `${kept}.${process.pid}-${threadId}`;
  writeFileSync(partial, mark + made);
  renameSync(partial, kept);
  return made;
}

/**
 * Finds the source for an import by the name of its build: sources import `./x.js`, which means `./x.ts` if
 * that file exists.
 */
export function resolve(specifier, context, next) {
  if (/^\.\.?\/.*\.js$/.test(specifier) && context.parentURL?.endsWith('.ts')) {
    const { href } = new URL(specifier.replace(/\.js$/, '.ts'), context.parentURL);
    if (statSync(fileURLToPath(href), { throwIfNoEntry: false }) !== undefined) {
      return { url: href, format: 'module', shortCircuit: true };
    }
  }
  return next(specifier, context);
}

export async function load(url, context, next) {
  if (!url.startsWith('file:') || !url.endsWith('.ts')) return next(url, context);
  return { format: 'module', source: await loadCompiled(fileURLToPath(url)), shortCircuit: true };
}
