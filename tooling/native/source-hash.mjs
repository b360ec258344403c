import { createHash } from 'node:crypto';
import { readdirSync, readFileSync } from 'node:fs';
import { join } from 'node:path';

/** True for paths below `native` that are not compiled into an addon. */
const isLeftOut = (path) => path.startsWith('tests/') || path === 'build-addon.mjs';

/** Folders in other packages with headers that an addon includes, by the name of the addon's package. */
const otherHeaders = { comm: ['packages/kernels/native/include'] };

/**
 * Returns a hash of the inputs from which the addon of `name` (kernels or comm) is compiled in the checkout
 * `root`: CMakeLists.txt, the native sources, headers of other packages, and the versions of Node-API's
 * headers. A platform package records this hash, so that a checkout of the same sources need not compile.
 */
export function sourceHash({ root, name }) {
  const folder = join(root, 'packages', name);
  const hash = createHash('sha256');
  const add = (label, content) => hash.update(`${label}\0${content.length}\0`).update(content);
  const addFolder = (path, isWanted = () => true) => {
    const files = readdirSync(path, { recursive: true, withFileTypes: true })
      .filter((entry) => entry.isFile())
      .map((entry) => join(entry.parentPath ?? entry.path, entry.name).slice(path.length + 1));
    for (const file of files.filter(isWanted).sort()) add(file, readFileSync(join(path, file)));
  };
  add('CMakeLists.txt', readFileSync(join(folder, 'CMakeLists.txt')));
  addFolder(join(folder, 'native'), (path) => !isLeftOut(path));
  for (const other of otherHeaders[name] ?? []) addFolder(join(root, other));
  const { dependencies } = JSON.parse(readFileSync(join(folder, 'package.json'), 'utf8'));
  for (const header of ['node-addon-api', 'node-api-headers']) add(header, dependencies[header]);
  return hash.digest('hex');
}
