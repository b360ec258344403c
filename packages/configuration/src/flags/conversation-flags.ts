import { longConversationRules } from '@mtl/data/conversations';
import { choice, count, fraction, text, texts } from './flag-kinds.js';

/** Fine-tuning on conversations: what is learnt from, and for how long. */
export const conversationFlags = {
  'train-data': texts(
    'JSON-lines files of conversations to fine-tune on, instead of --data-path: {"messages": [...]}, {"prompt": ..., "completion": ...}, or lines of ShareGPT or Alpaca; an array of them in JSON, too. The loss counts on what the assistant says.',
    { placeholder: 'FILE ...', learning: ({ data }) => data.conversations?.trainData },
  ),
  'validation-data': texts('Files of conversations to evaluate on.', {
    placeholder: 'FILE ...',
    learning: ({ data }) => data.conversations?.validationData,
  }),
  'validation-fraction': fraction('Share of the conversations to evaluate on instead, and not to train on.', {
    default: 0,
    learning: ({ data }) => data.conversations?.validationFraction,
  }),
  epochs: count('Passes over the conversations, instead of --train-iters.', {
    defaultText: 'mtl sft: 3 without --train-iters',
  }),
  'chat-template': text("Chat template in Jinja, instead of the tokenizer's own. Saved with the tokenizer.", {
    placeholder: 'FILE',
  }),
  'long-conversations': choice(
    longConversationRules,
    'What to do with a conversation that does not fit --seq-length: an error, only its start, or leave it out.',
    { default: 'refuse', learning: ({ data }) => data.conversations?.long },
  ),
  'early-stopping-patience': count(
    'Ends training after so many evaluations in a row without a lower validation loss.',
  ),
};
