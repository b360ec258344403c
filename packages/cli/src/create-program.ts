import type { Command } from 'commander';
import { calibrateCommand } from './commands/calibrate.js';
import { chatCommand } from './commands/chat.js';
import { checkpointCommand } from './commands/checkpoint.js';
import { completionCommand } from './commands/completion.js';
import { convertCommand } from './commands/convert.js';
import { dataCommand } from './commands/data/data.js';
import { doctorCommand } from './commands/doctor.js';
import { evalCommand } from './commands/eval/eval.js';
import { finetuneCommand } from './commands/finetune.js';
import { generateCommand } from './commands/generate.js';
import { planCommand } from './commands/plan/plan.js';
import { pushCommand } from './commands/push/push.js';
import { runCommand } from './commands/run/run.js';
import { runsCommand } from './commands/runs.js';
import { scheduleCommand } from './commands/schedule/schedule.js';
import { sftCommand } from './commands/sft.js';
import { trainCommand } from './commands/train.js';
import { watchCommand } from './commands/watch.js';
import { newProgram } from './new-program.js';

/** Returns the command `mtl` with all its subcommands. */
export function createProgram(): Command {
  return newProgram()
    .addCommand(trainCommand())
    .addCommand(runCommand())
    .addCommand(dataCommand())
    .addCommand(evalCommand())
    .addCommand(finetuneCommand())
    .addCommand(sftCommand())
    .addCommand(chatCommand())
    .addCommand(generateCommand())
    .addCommand(convertCommand())
    .addCommand(pushCommand())
    .addCommand(checkpointCommand())
    .addCommand(runsCommand())
    .addCommand(watchCommand())
    .addCommand(planCommand())
    .addCommand(calibrateCommand())
    .addCommand(scheduleCommand())
    .addCommand(doctorCommand())
    .addCommand(completionCommand());
}
