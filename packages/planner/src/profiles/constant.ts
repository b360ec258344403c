import { z } from 'zod';

/** A positive number with where it comes from; `fitted` where a script chose it on named rows. */
export const constant = z.strictObject({
  value: z.number().positive(),
  source: z.string().min(1),
  fitted: z.boolean().optional(),
});
