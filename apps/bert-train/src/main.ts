#!/usr/bin/env node
import { runTrainingProgram } from '@mtl/recipes';

await runTrainingProgram({
  model: 'bert',
  program: 'bert-train',
  description: 'Pretrains a BERT.',
  argv: process.argv.slice(2),
});
