#!/usr/bin/env node
/**
 * npm run compatibility -- FLAGS: makes the checkout ready and writes the files of this version that every
 * later version must read.
 */
import { join } from 'node:path';
import { runSources } from '../processes/run-sources.mjs';
import { answerHelp } from './answer-help.mjs';
import { bootstrap, root } from './bootstrap.mjs';

answerHelp(`usage: npm run compatibility [-- FLAGS]

Builds what is not built yet, and writes a dataset, a configuration file and the run folder of a small GPT into
packages/cli/fixtures/compatibility/VERSION (docs/compatibility.md). Run it once for a release, before its commit.

  --force  Replaces the folder of a version that has not been released.`);
bootstrap(['build', 'build:native'], ['@mtl/gpt-train', '@mtl/cli']);
const program = join(root, 'packages/cli/test/support/compatibility/write-fixture.ts');
process.exit(runSources(program, process.argv.slice(2)));
