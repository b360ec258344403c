#!/usr/bin/env node
import { runTraining } from './run-training.mjs';

await runTraining({ model: 'bert', program: 'bert-train', description: 'Pretrains a BERT.' });
