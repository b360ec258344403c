import { existsSync, readdirSync, readFileSync } from 'node:fs';
import { join } from 'node:path';

/**
 * The platform packages of the checkout `root`: { name, directory, manifest, addonOf } of each, where
 * `addonOf` is the folder of packages/ whose addon it holds.
 */
export function platformFolders(root) {
  const folder = join(root, 'platforms');
  if (!existsSync(folder)) return [];
  return readdirSync(folder).map((entry) => {
    const directory = join(folder, entry);
    const manifest = JSON.parse(readFileSync(join(directory, 'package.json'), 'utf8'));
    const [, addonOf] = /^@mtl\/(\w+)-/.exec(manifest.name);
    return { name: manifest.name, directory, manifest, addonOf };
  });
}

/** Those that are for the machine at hand. */
export function platformFoldersHere(root) {
  return platformFolders(root).filter(
    ({ manifest: { os, cpu } }) => os.includes(process.platform) && cpu.includes(process.arch),
  );
}
