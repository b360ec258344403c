#!/usr/bin/env node
import { runTrainingProgram } from '@mtl/recipes';

await runTrainingProgram({
  model: 'gpt',
  program: 'gpt-train',
  description: 'Trains a GPT.',
  argv: process.argv.slice(2),
});
