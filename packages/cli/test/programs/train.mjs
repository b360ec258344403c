// The programs gpt-train and bert-train from their sources: the first argument is the model, flags follow.
import { planning } from '@mtl/planning';
import { runTrainingProgram } from '@mtl/runs';

const [model, ...argv] = process.argv.slice(2);
await runTrainingProgram({ model, program: `${model}-train`, description: 'Trains.', argv, planning });
