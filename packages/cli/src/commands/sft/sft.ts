import type { Flags } from '@mtl/configuration';
import type { Command } from 'commander';
import { trainingCommand } from '../../command-line/training-command.js';
import { checkSftFlags } from './check-sft-flags.js';
import { flagsOfModel } from './flags-of-model.js';

const description =
  'Fine-tunes a GPT or a model of the Llama family on conversations: mtl sft --model DIR --train-data chats.jsonl ' +
  '--validation-fraction 0.05 --seq-length 2048 --save runs/chat. --model names a directory of the transformers ' +
  'library (it means --load-hf DIR) or checkpoints of a training run (--load DIR --finetune); --load DIR alone goes ' +
  'on with a run of this command. The loss counts on what the assistant says, by the chat template of the ' +
  'tokenizer. Conversations are packed into samples and do not see each other. All flags of training hold too. ' +
  'Defaults of this command: --epochs 3, --lr 2e-5, --lr-warmup-fraction 0.03, --micro-batch-size 4.';

/** What a fine-tuning run on conversations has where nothing else is asked for. */
const defaults: Flags = { epochs: 3, lr: 2e-5, 'lr-warmup-fraction': 0.03, 'micro-batch-size': 4 };

/** `mtl sft`: the training program, on conversations. */
export function sftCommand(): Command {
  return trainingCommand({
    name: 'sft',
    summary: 'Fine-tunes a model on conversations, by the chat template of its tokenizer.',
    description,
    model: 'gpt',
    program: 'mtl sft',
    defaults,
    checkFlags: checkSftFlags,
    flagsOf: flagsOfModel,
  });
}
