#!/usr/bin/env node
/**
 * The prepack script of every published package. It fails under npm, because npm would replace neither
 * `workspace:*` by versions nor the exports that name sources, so the tarball could not be installed. It also
 * fails for a package that was built without declarations, and removes the files of earlier builds.
 */
import { existsSync, readFileSync, rmSync } from 'node:fs';
import { basename, join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { locateStamps } from '../tsup/publish-folder.mjs';

const { name, publishConfig } = JSON.parse(readFileSync('package.json', 'utf8'));

function refuse(problem, remedy) {
  console.error(`error[MTL_PACK]: ${problem}\n  remedy: ${remedy}`);
  process.exit(2);
}

// The path of the program that runs this script. The user agent is not reliable, because npm takes it from
// the environment, where pnpm may have set it.
if (basename(process.env.npm_execpath ?? '').startsWith('npm')) {
  refuse(
    `npm leaves "workspace:*" and the sources' exports in the package.json of ${name}, which cannot be installed`,
    'npx pnpm pack (or npx pnpm publish), which replaces them',
  );
}
for (const { types } of Object.values(publishConfig.exports)) {
  if (types !== undefined && !existsSync(types))
    refuse(`${name} is built without ${types}`, 'npm run dev -- build:types, which compiles nothing native');
}
// the files of earlier builds, which running commands may still import
const stamps = locateStamps(fileURLToPath(new URL('../..', import.meta.url)));
const { superseded = {} } =
  (existsSync(stamps) ? JSON.parse(readFileSync(stamps, 'utf8'))[name] : undefined) ?? {};
for (const path of Object.keys(superseded)) rmSync(join('dist', path), { force: true });
