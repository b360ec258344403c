#!/usr/bin/env node
/**
 * Makes the skeleton of a package: node tooling/scaffold/new-package.mjs NAME "DESCRIPTION" [DEPENDENCY ...]
 * where each DEPENDENCY is the short name of a workspace package in a lower layer (see
 * tooling/checks/boundaries.mjs).
 */
import { existsSync, mkdirSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';

const [name, description, ...dependencies] = process.argv.slice(2);
if (name === undefined || description === undefined || !/^[a-z][a-z-]*$/.test(name)) {
  console.error('usage: node tooling/scaffold/new-package.mjs NAME "DESCRIPTION" [DEPENDENCY ...]');
  process.exit(2);
}
const root = fileURLToPath(new URL('../..', import.meta.url));
const directory = join(root, 'packages', name);
if (existsSync(join(directory, 'package.json'))) {
  console.error(`packages/${name} exists already`);
  process.exit(2);
}
mkdirSync(join(directory, 'src'), { recursive: true });

const json = (value) => `${JSON.stringify(value, null, 2)}\n`;
const built = { types: './dist/index.d.ts', default: './dist/index.js' };
const files = {
  'package.json': json({
    name: `@mtl/${name}`,
    version: '0.0.0',
    description,
    // the package's author adds the words that its users search for
    keywords: ['transformer', 'training', 'megatron', 'typescript'],
    license: 'Apache-2.0',
    author: 'The authors of @mtl',
    type: 'module',
    sideEffects: false,
    engines: { node: '>=20.19' },
    exports: { '.': { '@mtl/source': './src/index.ts', ...built } },
    publishConfig: { access: 'public', provenance: true, exports: { '.': built } },
    files: ['dist', 'README.md'],
    scripts: {
      prepack: 'node ../../tooling/packaging/refuse-npm-pack.mjs',
      build: 'node ../../tooling/tsup/build-packages.mjs --declarations',
      test: 'vitest run',
    },
    dependencies: Object.fromEntries(dependencies.map((dependency) => [`@mtl/${dependency}`, 'workspace:*'])),
    devDependencies: {
      '@mtl/tooling': 'workspace:*',
      '@types/node': '20.19.43',
      tsup: '8.5.1',
      typescript: '5.9.3',
      vitest: '4.1.12',
    },
  }),
  'vitest.config.ts': "import { library } from '@mtl/tooling/vitest';\n\nexport default library();\n",
  'README.md': `# @mtl/${name}\n\n${description}.\n`,
  'src/index.ts': 'export {};\n',
};
for (const [file, text] of Object.entries(files)) writeFileSync(join(directory, file), text);
console.log(`packages/${name} made. Next:
  npx pnpm install
  a line for "${name}" in mayImport of tooling/checks/boundaries.mjs; npm run dev -- boundaries asks for it
  its README: example, what is in it, errors, its layer`);
