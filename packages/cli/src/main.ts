#!/usr/bin/env node
import { endWithoutOutput } from '@mtl/runs/internal';
import { runMtl } from './run-mtl.js';

// it is not an error if the reader of the output ends early, such as `
//  head`
endWithoutOutput({ exitCode: 0 });

process.exitCode = await runMtl(process.argv.slice(2));
