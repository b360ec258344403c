#!/usr/bin/env node
/**
 * The prepack script of every published package: npm would pack what is written for pnpm, `workspace:*`
 * instead of versions and exports that name sources, and the tarball could not be installed.
 */
import { readFileSync } from 'node:fs';
import { basename } from 'node:path';

// the program that runs this script; npm takes its user agent from the environment, where pnpm may have left
// its own
if (basename(process.env.npm_execpath ?? '').startsWith('npm')) {
  const { name } = JSON.parse(readFileSync('package.json', 'utf8'));
  console.error(
    `error[MTL_PACK]: npm leaves "workspace:*" and the sources' exports in the package.json of ${name}, which cannot be installed\n` +
      '  remedy: npx pnpm pack (or npx pnpm publish), which replaces them',
  );
  process.exit(2);
}
