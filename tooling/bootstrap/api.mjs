#!/usr/bin/env node
/** npm run api [-- --out DIRECTORY]: installs the packages and writes the API reference of all of them. */
import { spawnSync } from 'node:child_process';
import { join } from 'node:path';
import { answerHelp } from './answer-help.mjs';
import { ensurePackages, root, toolEnvironment } from './bootstrap.mjs';

answerHelp(`usage: npm run api [-- --out DIRECTORY]

Writes the API reference of all packages as HTML. [tooling/build/api]`);
ensurePackages();
const args = [join(root, 'tooling/api/build-api.mjs'), ...process.argv.slice(2)];
process.exit(spawnSync(process.execPath, args, { env: toolEnvironment(), stdio: 'inherit' }).status ?? 1);
