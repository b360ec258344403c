#!/usr/bin/env node
import { runTraining } from './run-training.mjs';

await runTraining({ model: 'gpt', program: 'gpt-train', description: 'Trains a GPT.' });
