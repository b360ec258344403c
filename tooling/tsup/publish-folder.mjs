import { existsSync, mkdirSync, readdirSync, readFileSync, renameSync, rmSync, writeFileSync } from 'node:fs';
import { dirname, join, relative } from 'node:path';

/**
 * The time, in milliseconds, for which a file is kept when builds no longer make it. A command that started
 * before the build may still import the file: within a second after its start, or later if it needs the file
 * only then.
 */
const keptMs = 3_600_000;

/** Returns the path of the file in which build-packages.mjs records the builds of the checkout `root`. */
export const locateStamps = (root) => join(root, 'tooling', 'build', 'packages.json');

/**
 * Lists the files in `folder` and its subfolders, as paths relative to `folder`. Returns an empty list if the
 * folder does not exist.
 */
export function listFiles(folder) {
  if (!existsSync(folder)) return [];
  return readdirSync(folder, { recursive: true, withFileTypes: true })
    .filter((entry) => entry.isFile())
    .map((entry) => relative(folder, join(entry.parentPath ?? entry.path, entry.name)));
}

/**
 * Returns true if `path` is a declaration file. Old declarations need not be kept, because no running program
 * reads them; they must match the current sources.
 */
export const isDeclaration = (path) => /\.d\.m?ts$/.test(path);

function isSame(path, other) {
  return existsSync(other) && readFileSync(path).equals(readFileSync(other));
}

/**
 * Moves a build from the folder `aside` to `target`, from which commands may be running. Each file is moved
 * by a rename, so that it is always complete. New files are moved first: they are the chunks, which get new
 * names in each build, and the entry points that import them keep their names. Files from earlier builds are
 * kept for an hour.
 *
 * @param superseded the files in `target` that remain from earlier builds: { path: milliseconds since 1970 at
 * the
 *   first build that did not make the file }
 * @returns the files in `target` that remain after this build, in the same form
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
 * Each file is replaced by a rename, because editors and compilers may be reading it.
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
