import { existsSync, mkdirSync, readdirSync, readFileSync, renameSync, rmSync, writeFileSync } from 'node:fs';
import { dirname, join, relative } from 'node:path';

/**
 * The time, in milliseconds, for which a file is kept after builds no longer make it. A command that started
 * before the build may still import the file, either within a second after its start, or later when it needs
 * the file.
 */
const keptMs = 3_600_000;

/** Returns the path of the file in which build-packages.mjs records its builds of a checkout. */
export const locateStamps = (root) => join(root, 'tooling', 'build', 'packages.json');

/** Lists the files in a folder, as paths relative to the folder. */
export function listFiles(folder) {
  if (!existsSync(folder)) return [];
  return readdirSync(folder, { recursive: true, withFileTypes: true })
    .filter((entry) => entry.isFile())
    .map((entry) => relative(folder, join(entry.parentPath ?? entry.path, entry.name)));
}

/**
 * Returns true if a path is a declaration. No running program reads declarations, and they must match the
 * current sources.
 */
export const isDeclaration = (path) => /\.d\.m?ts$/.test(path);

function isSame(path, other) {
  return existsSync(other) && readFileSync(path).equals(readFileSync(other));
}

/**
 * Moves a build from the folder `aside` to `target`, from which commands may be running. Each file is moved
 * by a rename, so that it is always complete. Chunks are moved before the entry points that import them,
 * because chunks have new names and entry points keep their names. Files of earlier builds are kept for an
 * hour.
 *
 * @param superseded the files of `target` that earlier builds no longer made: { path: milliseconds
 *   since 1970 of the first such build }
 * @returns the same for this build
 */
export function publishFolder({ aside, target, superseded = {}, now = Date.now() }) {
  const built = listFiles(aside);
  const isNew = (path) => !existsSync(join(target, path));
  for (const path of [...built.filter(isNew), ...built.filter((path) => !isNew(path))]) {
    const [from, to] = [join(aside, path), join(target, path)];
    mkdirSync(dirname(to), { recursive: true });
    if (!isSame(from, to)) renameSync(from, to);
  }
  rmSync(aside, { recursive: true, force: true });
  const kept = {};
  const made = new Set(built);
  for (const path of listFiles(target).filter((each) => !made.has(each))) {
    const since = superseded[path] ?? now;
    if (isDeclaration(path) || now - since > keptMs) rmSync(join(target, path));
    else kept[path] = since;
  }
  return kept;
}

/**
 * Writes the declarations in `texts` to their paths below `target`, and removes all other declarations there.
 * Each file is replaced as a whole, because editors and compilers may be reading it.
 */
export function publishDeclarations({ texts, target }) {
  for (const [path, text] of texts) {
    const to = join(target, path);
    mkdirSync(dirname(to), { recursive: true });
    if (existsSync(to) && readFileSync(to, 'utf8') === text) continue;
    writeFileSync(`${to}.${process.pid}`, text);
    renameSync(`${to}.${process.pid}`, to);
  }
  for (const path of listFiles(target).filter(isDeclaration))
    if (!texts.has(path)) rmSync(join(target, path));
}
