import { type Flags, formatHelp } from '@mtl/configuration';
import { runTrainingProgram } from '@mtl/recipes';
import type { Command } from 'commander';
import { newCommand } from '../../command-line/new-command.js';
import { checkSftFlags } from './check-sft-flags.js';
import { flagsOfModel } from './flags-of-model.js';

const program = 'mtl sft';

const description =
  'Fine-tunes a GPT or a model of the Llama family on conversations: mtl sft --model DIR --train-data chats.jsonl ' +
  '--validation-fraction 0.05 --seq-length 2048 --save runs/chat. --model names a directory of the transformers ' +
  'library (it means --load-hf DIR) or checkpoints of a training run (--load DIR --finetune); --load DIR alone goes ' +
  'on with a run of this command. The loss counts on what the assistant says, by the chat template of the ' +
  'tokenizer. Conversations are packed into samples and do not see each other. All flags of training hold too. ' +
  'Defaults of this command: --epochs 3, --lr 2e-5, --lr-warmup-fraction 0.03, --micro-batch-size 4.';

/** What a fine-tuning run on conversations has where nothing else is asked for. */
const defaults: Flags = { epochs: 3, lr: 2e-5, 'lr-warmup-fraction': 0.03, 'micro-batch-size': 4 };

/** `mtl sft`: the training program, on conversations. It reads its flags itself, as gpt-train does. */
export function sftCommand(): Command {
  const command = newCommand(
    'sft',
    'fine-tune a model on conversations, by the chat template of its tokenizer',
  )
    .argument('[flags...]', 'flags of a training run')
    .allowUnknownOption()
    .helpOption(false)
    .action(async (_words: readonly string[], options: { readonly debug?: true }) => {
      const argv = [...command.args, ...(options.debug === true ? ['--debug'] : [])];
      await runTrainingProgram({
        argv: flagsOfModel(argv),
        model: 'gpt',
        program,
        description,
        defaults,
        checkFlags: checkSftFlags,
      });
    });
  command.helpInformation = () => `${formatHelp({ program, description, model: 'gpt' })}\n`;
  return command;
}
