------------------------------- MODULE Lease -------------------------------
(* Leases of batch writers, healing and late records in the log of one bucket (RFC 22). Each writer has one epoch with one
   row. An append may reach the log at any time after it was sent, also after its process has died. A lease may expire at
   any time: no clock is trusted. *)
EXTENDS Naturals, Integers, Sequences, FiniteSets

CONSTANTS Writers, Helpers, Records, Bug

VARIABLES log,       \* sequence of [w, sign]: a row is [w, 2], a correction has the sign -1 or 1
          registered,\* writers with a registration
          expired,   \* writers whose lease has expired
          decided,   \* writers whose epoch is decided
          sealed,    \* writers whose epoch is in a snapshot
          sent,      \* writers with an append that has not reached the log
          writer,    \* writer -> "new", "open", "sent", "written", "checked", "decided", "acked", "fenced", "dead"
          plan,      \* writer -> the sign of the correction that it is about to append to its own row, or 0
          helper,    \* helper -> [w, sign, ready, seen: the records that it has read]
          searched,  \* records up to here were searched for late ones
          seen,      \* writer -> the records that it had read when it acknowledged
          refused,   \* writers whose epoch was decided as empty by a take-over
          skipped    \* writers that were forgotten with an open row: a reader that begins now skips it
vars == <<log, registered, expired, decided, sealed, sent, writer, plan, helper, searched, seen, refused, skipped>>

Init ==
    /\ log = <<>> /\ registered = {} /\ expired = {} /\ decided = {} /\ sealed = {} /\ sent = {} /\ searched = 0
    /\ writer = [w \in Writers |-> "new"] /\ plan = [w \in Writers |-> 0] /\ seen = [w \in Writers |-> 0]
    /\ refused = {} /\ skipped = {}
    /\ helper = [h \in Helpers |-> [w |-> "", sign |-> 0, ready |-> FALSE, seen |-> 0]]

Of(w, s) == Cardinality({i \in 1..Len(log) : log[i].w = w /\ log[i].sign = s})
Count(w) == Of(w, 2) + Of(w, 1) - Of(w, 0 - 1)
Expected(w) == IF w \in decided THEN 1 ELSE 0
Sign(w, expected) == IF Count(w) > expected THEN 0 - 1 ELSE IF Count(w) < expected THEN 1 ELSE 0
Correct(w, sign) == Len(log) < Records /\ log' = Append(log, [w |-> w, sign |-> sign])

Register(w) ==
    /\ writer[w] = "new" /\ registered' = registered \cup {w} /\ writer' = [writer EXCEPT ![w] = "open"]
    /\ UNCHANGED <<log, expired, decided, sealed, sent, plan, helper, searched, seen, refused, skipped>>
Expire(w) ==
    /\ w \in registered \ expired /\ expired' = expired \cup {w}
    /\ UNCHANGED <<log, registered, decided, sealed, sent, writer, plan, helper, searched, seen, refused, skipped>>
(* A process that was delayed renews its lease before it appends; if it is not registered any more, it is refused. *)
Send(w) ==
    /\ writer[w] = "open"
    /\ IF w \in registered
       THEN /\ expired' = expired \ {w} /\ sent' = sent \cup {w} /\ writer' = [writer EXCEPT ![w] = "sent"]
       ELSE /\ writer' = [writer EXCEPT ![w] = "fenced"] /\ UNCHANGED <<expired, sent>>
    /\ UNCHANGED <<log, registered, decided, sealed, plan, helper, searched, seen, refused, skipped>>
Arrive(w) ==
    /\ w \in sent /\ sent' = sent \ {w} /\ Len(log) < Records /\ log' = Append(log, [w |-> w, sign |-> 2])
    /\ writer' = IF writer[w] = "sent" THEN [writer EXCEPT ![w] = "written"] ELSE writer
    /\ UNCHANGED <<registered, expired, decided, sealed, plan, helper, searched, seen, refused, skipped>>
(* Before the decision: a writer that was taken over takes its row back itself. *)
CheckRegistered(w) ==
    /\ writer[w] = "written"
    /\ IF w \in registered
       THEN writer' = [writer EXCEPT ![w] = "checked"] /\ UNCHANGED log
       ELSE IF Count(w) > 0 THEN Correct(w, 0 - 1) /\ UNCHANGED writer
       ELSE writer' = [writer EXCEPT ![w] = "fenced"] /\ UNCHANGED log
    /\ UNCHANGED <<registered, expired, decided, sealed, sent, plan, helper, searched, seen, refused, skipped>>
(* One file is created: a take-over may have decided the epoch as empty. *)
Decide(w) ==
    /\ writer[w] = "checked"
    /\ IF w \in refused
       THEN writer' = [writer EXCEPT ![w] = "fenced"] /\ UNCHANGED decided
       ELSE decided' = decided \cup {w} /\ writer' = [writer EXCEPT ![w] = "decided"]
    /\ UNCHANGED <<log, registered, expired, sealed, sent, plan, helper, searched, seen, refused, skipped>>
(* The driver reads the log and plans one correction; without any it acknowledges. *)
HealOwn(w) ==
    /\ writer[w] = "decided"
    /\ IF plan[w] # 0
       THEN Correct(w, plan[w]) /\ plan' = [plan EXCEPT ![w] = 0] /\ UNCHANGED <<writer, seen>>
       ELSE IF Sign(w, 1) = 0
       THEN writer' = [writer EXCEPT ![w] = "acked"] /\ seen' = [seen EXCEPT ![w] = Len(log)] /\ UNCHANGED <<log, plan>>
       ELSE plan' = [plan EXCEPT ![w] = Sign(w, 1)] /\ UNCHANGED <<log, writer, seen>>
    /\ UNCHANGED <<registered, expired, decided, sealed, sent, helper, searched, refused, skipped>>
(* What has arrived since the writer read the log is searched again, as after a take-over. *)
Close(w) ==
    /\ writer[w] = "acked" /\ w \in sealed \cap registered /\ registered' = registered \ {w} /\ expired' = expired \ {w}
    /\ searched' = (IF seen[w] < searched /\ Bug # "no search after the close" THEN seen[w] ELSE searched)
    /\ UNCHANGED <<log, decided, sealed, sent, writer, plan, helper, seen, refused, skipped>>
Die(w) ==
    /\ writer[w] \notin {"new", "acked", "fenced", "dead"}
    /\ writer' = [writer EXCEPT ![w] = "dead"] /\ plan' = [plan EXCEPT ![w] = 0]
    /\ UNCHANGED <<log, registered, expired, decided, sealed, sent, helper, searched, seen, refused, skipped>>

(* A helper reads the decisions, then the log, for a writer whose lease has expired or whose epoch waits for a seal. *)
Idle(h) == helper[h].w = ""
HelperRead(h, w) ==
    /\ Idle(h) /\ (w \in registered \cap expired \/ w \in decided \ sealed)
    /\ helper' = [helper EXCEPT ![h] = [w |-> w, sign |-> Sign(w, Expected(w)), ready |-> w \in decided, seen |-> Len(log)]]
    /\ UNCHANGED <<log, registered, expired, decided, sealed, sent, writer, plan, searched, seen, refused, skipped>>
HelperCorrect(h) ==
    /\ ~Idle(h) /\ helper[h].sign # 0 /\ Correct(helper[h].w, helper[h].sign)
    /\ helper' = [helper EXCEPT ![h] = [w |-> "", sign |-> 0, ready |-> FALSE, seen |-> 0]]
    /\ UNCHANGED <<registered, expired, decided, sealed, sent, writer, plan, searched, seen, refused, skipped>>
(* Nothing is wrong: it seals a decided epoch, and forgets the writer unless its lease was renewed. It decides an open
   epoch with rows as empty before. What has arrived since it read the log is searched again: other processes took it for
   a record of a registered writer or of a waiting epoch. *)
HelperEnd(h) ==
    LET w == helper[h].w
        forgets == w \in registered /\ w \in expired
        isOpen == w \notin decided /\ Of(w, 2) > 0
    IN /\ ~Idle(h) /\ (helper[h].sign = 0 \/ Bug = "forget before the corrections")
       /\ sealed' = IF helper[h].ready THEN sealed \cup {w} ELSE sealed
       /\ IF forgets
          THEN registered' = registered \ {w} /\ expired' = expired \ {w}
          ELSE UNCHANGED <<registered, expired>>
       /\ refused' = IF forgets /\ isOpen /\ Bug # "forget without a decision" THEN refused \cup {w} ELSE refused
       /\ skipped' = IF forgets /\ isOpen THEN skipped \cup {w} ELSE skipped
       /\ searched' = (IF helper[h].seen < searched /\ Bug # "no search after the end" THEN helper[h].seen ELSE searched)
       /\ helper' = [helper EXCEPT ![h] = [w |-> "", sign |-> 0, ready |-> FALSE, seen |-> 0]]
       /\ UNCHANGED <<log, decided, sent, writer, plan, seen>>
HelperDie(h) ==
    /\ ~Idle(h) /\ helper' = [helper EXCEPT ![h] = [w |-> "", sign |-> 0, ready |-> FALSE, seen |-> 0]]
    /\ UNCHANGED <<log, registered, expired, decided, sealed, sent, writer, plan, searched, seen, refused, skipped>>

(* Each record is searched once. If its writer is not registered and its rows do not count as decided, it is registered
   again with an expired lease. *)
Search ==
    /\ searched < Len(log) /\ searched' = searched + 1
    /\ LET w == log[searched + 1].w
           isLate == w \notin registered /\ Count(w) # Expected(w) /\ (w \notin decided \/ w \in sealed)
       IN IF isLate /\ Bug # "no search" /\ (log[searched + 1].sign = 2 \/ Bug # "a search of rows only")
          THEN registered' = registered \cup {w} /\ expired' = expired \cup {w}
          ELSE UNCHANGED <<registered, expired>>
    /\ UNCHANGED <<log, decided, sealed, sent, writer, plan, helper, seen, refused, skipped>>

Next ==
    \/ \E w \in Writers : \/ Register(w) \/ Expire(w) \/ Send(w) \/ Arrive(w) \/ CheckRegistered(w) \/ Decide(w)
                          \/ HealOwn(w) \/ Close(w) \/ Die(w)
    \/ \E h \in Helpers : HelperCorrect(h) \/ HelperEnd(h) \/ HelperDie(h) \/ \E w \in Writers : HelperRead(h, w)
    \/ Search
Spec == Init /\ [][Next]_vars

-----------------------------------------------------------------------------
IsAtRest ==
    /\ \A h \in Helpers : Idle(h)
    /\ sent = {} /\ registered = {} /\ decided \subseteq sealed /\ searched = Len(log)
    /\ \A w \in Writers : writer[w] \in {"new", "acked", "fenced", "dead"}
(* At rest the log has the row of each decided epoch once, and no other row. *)
InvCounts == IsAtRest => \A w \in Writers : Count(w) = Expected(w)
(* A writer that was refused has decided nothing; one that was acknowledged has. *)
InvRefused == \A w \in Writers : (writer[w] = "fenced" => w \notin decided) /\ (writer[w] = "acked" => w \in decided)
(* A row that readers may have skipped is never decided. *)
InvSkipped == skipped \cap decided = {}
(* A snapshot has decided epochs only. *)
InvSealed == sealed \subseteq decided
=============================================================================
