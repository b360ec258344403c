import { existsSync, readdirSync, readFileSync } from 'node:fs';
import { join } from 'node:path';

/** Returns { directory, manifest } of each package in platforms/ of the checkout `root`. */
function folders(root) {
  const folder = join(root, 'platforms');
  if (!existsSync(folder)) return [];
  return readdirSync(folder).map((entry) => {
    const directory = join(folder, entry);
    return { directory, manifest: JSON.parse(readFileSync(join(directory, 'package.json'), 'utf8')) };
  });
}

/**
 * Returns the platform packages of the checkout `root`, each as { name, directory, manifest, part, packageOf,
 * isAddon, cpu }. `part` names the content: kernels or comm for the addon of this package, or kernels-cuda.
 * `packageOf` is the folder in packages/ that contains the sources, `cpu` the processor as Node.js names it.
 */
export function platformFolders(root) {
  return folders(root)
    .filter(({ manifest }) => manifest.os !== undefined)
    .map(({ directory, manifest }) => {
      const [, part, cpu] = /^@mtl\/([\w-]+)-\w+-(\w+)$/.exec(manifest.name);
      const [packageOf] = part.split('-');
      return { name: manifest.name, directory, manifest, part, packageOf, isAddon: part === packageOf, cpu };
    });
}

/**
 * Returns the packages that run on every platform, in the same form as `platformFolders`. There is only one:
 * the WebAssembly kernels.
 */
export function portableFolders(root) {
  return folders(root)
    .filter(({ manifest }) => manifest.os === undefined)
    .map(({ directory, manifest }) => ({ name: manifest.name, directory, manifest }));
}

/** Returns the platform packages for machines with this machine's system and the processor `arch`. */
export function platformFoldersFor(root, arch) {
  return platformFolders(root).filter(
    ({ manifest: { os }, cpu }) => os.includes(process.platform) && cpu === arch,
  );
}

/** Returns the platform packages for this machine. */
export const platformFoldersHere = (root) => platformFoldersFor(root, process.arch);

/** Returns the platform packages that this machine can compile: its own, and by cross compilers others. */
export function platformFoldersToBuild(root) {
  const others = process.arch === 'x64' ? ['arm64'] : [];
  return [process.arch, ...others].flatMap((arch) => platformFoldersFor(root, arch));
}

/**
 * Returns the platform packages for this machine that contain an addon. A checkout can use these addons
 * instead of compiling its own.
 */
export function addonFoldersHere(root) {
  return platformFoldersHere(root).filter(({ isAddon }) => isAddon);
}
