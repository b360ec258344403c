/** esbuild plugins for programs that contain the workspace's other packages, and third-party packages. */
import { mkdirSync, readdirSync, readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';

const sources = /\/packages\/([^/]+)\/src\/.*\.ts$/;

/**
 * Replaces `import.meta.url` in a bundled package by the URL of a file in the package's own dist/. The
 * bundled code then finds the package's threads, pages and other files as if it ran from there.
 */
export const ownUrls = () => ({
  name: 'own-urls',
  setup(build) {
    const program = sources.exec(`${process.cwd()}/src/x.ts`)?.[1];
    build.onLoad({ filter: sources }, ({ path }) => {
      const [, name] = sources.exec(path);
      const text = readFileSync(path, 'utf8');
      if (name === program || !text.includes('import.meta.url')) return undefined;
      const url = `new URL('./bundled.js', import.meta.resolve('@mtl/${name}')).href`;
      return { contents: text.replaceAll('import.meta.url', url), loader: 'ts' };
    });
  },
});

/**
 * Returns the folder in node_modules of the package that contains the bundled file `path`; undefined for
 * files of the workspace.
 */
function findThirdParty(path) {
  const at = path.lastIndexOf('node_modules/');
  if (at < 0) return undefined;
  const [scope, name] = path.slice(at + 'node_modules/'.length).split('/');
  return join(path.slice(0, at), 'node_modules', scope.startsWith('@') ? join(scope, name) : scope);
}

/** Writes the licences of the bundled third-party packages into the build's folder as LICENSE-NAME.txt. */
export const addLicenses = (outDir) => ({
  name: 'licenses',
  setup(build) {
    build.onEnd(({ metafile }) => {
      if (metafile === undefined) return; // the build failed
      const inputs = Object.values(metafile.outputs).flatMap(({ inputs }) => Object.keys(inputs));
      const folders = new Set(inputs.map((path) => findThirdParty(join(process.cwd(), path))));
      for (const folder of folders) if (folder !== undefined) addLicense(folder, outDir);
    });
  },
});

function addLicense(folder, outDir) {
  const { name } = JSON.parse(readFileSync(join(folder, 'package.json'), 'utf8'));
  const file = readdirSync(folder).find((each) => /^licen[cs]e/i.test(each));
  if (file === undefined) throw new Error(`${name} is bundled and has no licence in ${folder}`);
  mkdirSync(outDir, { recursive: true });
  writeFileSync(join(outDir, `LICENSE-${name.replace('/', '-')}.txt`), readFileSync(join(folder, file)));
}
