#!/usr/bin/env node
/**
 * The prepack script of every published package. It refuses npm, which would pack what is written for pnpm,
 * `workspace:*` instead of versions and exports that name sources: the tarball could not be installed. It
 * also refuses a package that was built without its declarations, and removes what earlier builds left.
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

// the program that runs this script; npm takes its user agent from the environment, where pnpm may have left
// its own
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
// files of earlier builds, which commands that run may still import
const stamps = locateStamps(fileURLToPath(new URL('../..', import.meta.url)));
const { superseded = {} } =
  (existsSync(stamps) ? JSON.parse(readFileSync(stamps, 'utf8'))[name] : undefined) ?? {};
for (const path of Object.keys(superseded)) rmSync(join('dist', path), { force: true });
