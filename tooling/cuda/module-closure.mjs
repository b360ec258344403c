import { lstatSync, readdirSync, readFileSync, realpathSync } from 'node:fs';
import { join, relative, sep } from 'node:path';

const isLink = (path) => lstatSync(path, { throwIfNoEntry: false })?.isSymbolicLink() ?? false;

/**
 * Returns the names of the packages in a node_modules folder. The name of a package in a scope is
 * `@scope/name`.
 */
function packagesIn(modules) {
  return readdirSync(modules).flatMap((name) =>
    name.startsWith('@') ? readdirSync(join(modules, name)).map((inner) => join(name, inner)) : [name],
  );
}

/**
 * Returns the files in `node_modules` that a set of workspace packages needs to run: the links to their
 * dependencies, and pnpm's folders of all direct and indirect dependencies. Paths are relative to `root`.
 * @param {{ root: string, workspace: readonly string[], alsoNeeded?: readonly string[], without?: RegExp }}
 *   options `workspace`: the folders of the packages; `alsoNeeded`: the names of further dependencies, for
 *   packages that have them; `without`: matches the names of packages to leave out, with everything that only
 *   they need
 */
export function moduleClosure({ root, workspace, alsoNeeded = [], without = /^$/ }) {
  const found = new Set();
  const store = join(root, 'node_modules', '.pnpm') + sep;

  /**
   * Follows a link to a package: adds pnpm's folder of this package, and the packages next to it, which are
   * its dependencies.
   */
  function follow(link) {
    const target = realpathSync(link);
    if (!target.startsWith(store)) return; // the link leads to a package of the workspace
    const folder = join(store, target.slice(store.length).split(sep)[0]);
    if (found.has(relative(root, folder))) return;
    found.add(relative(root, folder));
    const modules = join(folder, 'node_modules');
    for (const name of packagesIn(modules)) {
      const path = join(modules, name);
      if (isLink(path) && !without.test(name)) follow(path);
    }
  }

  for (const folder of workspace) {
    const { dependencies = {} } = JSON.parse(readFileSync(join(root, folder, 'package.json'), 'utf8'));
    for (const name of [...Object.keys(dependencies), ...alsoNeeded]) {
      const link = join(root, folder, 'node_modules', name);
      if (!isLink(link) || without.test(name)) continue;
      found.add(relative(root, link));
      follow(link);
    }
  }
  return [...found].sort();
}
