import { flagsOfOptions } from '@mtl/configuration';
import { expect, it } from 'vitest';
import { openConversations } from './open-conversations.js';

it('refuses a run on conversations that lacks several flags, and names them all', async () => {
  await expect(
    openConversations(flagsOfOptions({ data: { trainData: ['chats.jsonl'] } })),
  ).rejects.toMatchObject({
    code: 'MTL_FLAG_REQUIRED',
    message: expect.stringMatching(
      /^--num-layers, .*--seq-length, .*--lr, --train-iters \(or --train-samples\) and --tokenizer-type are missing/,
    ) as string,
  });
});
