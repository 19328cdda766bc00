-- rank(due_at, priority, group_priority) · the order of all work: the moment a job is due, brought forward by 10 minutes for each step of priority
{due_at} - ({priority} + coalesce({group_priority}, 0)) * 600000000
