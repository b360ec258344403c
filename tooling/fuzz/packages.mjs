import { createRequire } from 'node:module';
import { join } from 'node:path';
import { fileURLToPath, pathToFileURL } from 'node:url';

/** The root folder of the repository. */
export const root = fileURLToPath(new URL('../../', import.meta.url));

// @mtl/runs depends on all packages that read files
const { resolve } = createRequire(join(root, 'packages/runs/package.json'));

/** Returns the exports of the package `name` in this repository, from its build. */
export const importPackage = (name) => import(pathToFileURL(resolve(name)).href);
