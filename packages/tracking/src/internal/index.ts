export { deliveryText } from '../services/delivery.js';
export { trackingCredentials } from '../services/open-deliveries.js';
