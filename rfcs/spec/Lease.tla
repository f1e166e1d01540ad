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
          searched   \* records up to here were searched for late ones
vars == <<log, registered, expired, decided, sealed, sent, writer, plan, helper, searched>>

Init ==
    /\ log = <<>> /\ registered = {} /\ expired = {} /\ decided = {} /\ sealed = {} /\ sent = {} /\ searched = 0
    /\ writer = [w \in Writers |-> "new"] /\ plan = [w \in Writers |-> 0]
    /\ helper = [h \in Helpers |-> [w |-> "", sign |-> 0, ready |-> FALSE, seen |-> 0]]

Of(w, s) == Cardinality({i \in 1..Len(log) : log[i].w = w /\ log[i].sign = s})
Count(w) == Of(w, 2) + Of(w, 1) - Of(w, 0 - 1)
Expected(w) == IF w \in decided THEN 1 ELSE 0
Sign(w, expected) == IF Count(w) > expected THEN 0 - 1 ELSE IF Count(w) < expected THEN 1 ELSE 0
Correct(w, sign) == Len(log) < Records /\ log' = Append(log, [w |-> w, sign |-> sign])

Register(w) ==
    /\ writer[w] = "new" /\ registered' = registered \cup {w} /\ writer' = [writer EXCEPT ![w] = "open"]
    /\ UNCHANGED <<log, expired, decided, sealed, sent, plan, helper, searched>>
Expire(w) ==
    /\ w \in registered \ expired /\ expired' = expired \cup {w}
    /\ UNCHANGED <<log, registered, decided, sealed, sent, writer, plan, helper, searched>>
(* A process that was delayed renews its lease before it appends; if it is not registered any more, it is refused. *)
Send(w) ==
    /\ writer[w] = "open"
    /\ IF w \in registered
       THEN /\ expired' = expired \ {w} /\ sent' = sent \cup {w} /\ writer' = [writer EXCEPT ![w] = "sent"]
       ELSE /\ writer' = [writer EXCEPT ![w] = "fenced"] /\ UNCHANGED <<expired, sent>>
    /\ UNCHANGED <<log, registered, decided, sealed, plan, helper, searched>>
Arrive(w) ==
    /\ w \in sent /\ sent' = sent \ {w} /\ Len(log) < Records /\ log' = Append(log, [w |-> w, sign |-> 2])
    /\ writer' = IF writer[w] = "sent" THEN [writer EXCEPT ![w] = "written"] ELSE writer
    /\ UNCHANGED <<registered, expired, decided, sealed, plan, helper, searched>>
(* Before the decision: a writer that was taken over takes its row back itself. *)
CheckRegistered(w) ==
    /\ writer[w] = "written"
    /\ IF w \in registered
       THEN writer' = [writer EXCEPT ![w] = "checked"] /\ UNCHANGED log
       ELSE IF Count(w) > 0 THEN Correct(w, 0 - 1) /\ UNCHANGED writer
       ELSE writer' = [writer EXCEPT ![w] = "fenced"] /\ UNCHANGED log
    /\ UNCHANGED <<registered, expired, decided, sealed, sent, plan, helper, searched>>
Decide(w) ==
    /\ writer[w] = "checked" /\ decided' = decided \cup {w} /\ writer' = [writer EXCEPT ![w] = "decided"]
    /\ UNCHANGED <<log, registered, expired, sealed, sent, plan, helper, searched>>
(* The driver reads the log and plans one correction; without any it acknowledges. *)
HealOwn(w) ==
    /\ writer[w] = "decided"
    /\ IF plan[w] # 0
       THEN Correct(w, plan[w]) /\ plan' = [plan EXCEPT ![w] = 0] /\ UNCHANGED writer
       ELSE IF Sign(w, 1) = 0
       THEN writer' = [writer EXCEPT ![w] = "acked"] /\ UNCHANGED <<log, plan>>
       ELSE plan' = [plan EXCEPT ![w] = Sign(w, 1)] /\ UNCHANGED <<log, writer>>
    /\ UNCHANGED <<registered, expired, decided, sealed, sent, helper, searched>>
(* Known gap: the code does not see that a search has registered the writer again at the moment at which it closes. *)
Close(w) ==
    /\ writer[w] = "acked" /\ w \in (sealed \cap registered) \ expired /\ registered' = registered \ {w} /\ expired' = expired \ {w}
    /\ UNCHANGED <<log, decided, sealed, sent, writer, plan, helper, searched>>
Die(w) ==
    /\ writer[w] \notin {"new", "acked", "fenced", "dead"}
    /\ writer' = [writer EXCEPT ![w] = "dead"] /\ plan' = [plan EXCEPT ![w] = 0]
    /\ UNCHANGED <<log, registered, expired, decided, sealed, sent, helper, searched>>

(* A helper reads the decisions, then the log, for a writer whose lease has expired or whose epoch waits for a seal. *)
Idle(h) == helper[h].w = ""
HelperRead(h, w) ==
    /\ Idle(h) /\ (w \in registered \cap expired \/ w \in decided \ sealed)
    /\ helper' = [helper EXCEPT ![h] = [w |-> w, sign |-> Sign(w, Expected(w)), ready |-> w \in decided, seen |-> Len(log)]]
    /\ UNCHANGED <<log, registered, expired, decided, sealed, sent, writer, plan, searched>>
HelperCorrect(h) ==
    /\ ~Idle(h) /\ helper[h].sign # 0 /\ Correct(helper[h].w, helper[h].sign)
    /\ helper' = [helper EXCEPT ![h] = [w |-> "", sign |-> 0, ready |-> FALSE, seen |-> 0]]
    /\ UNCHANGED <<registered, expired, decided, sealed, sent, writer, plan, searched>>
(* Nothing is wrong: it seals a decided epoch, and forgets the writer unless its lease was renewed. What has arrived since
   it read the log is searched again: other processes took it for a record of a registered writer or of a waiting epoch. *)
HelperEnd(h) ==
    LET w == helper[h].w
    IN /\ ~Idle(h) /\ (helper[h].sign = 0 \/ Bug = "forget before the corrections")
       /\ sealed' = IF helper[h].ready THEN sealed \cup {w} ELSE sealed
       /\ IF w \in registered /\ w \in expired
          THEN registered' = registered \ {w} /\ expired' = expired \ {w}
          ELSE UNCHANGED <<registered, expired>>
       /\ searched' = (IF helper[h].seen < searched /\ Bug # "no search after the end" THEN helper[h].seen ELSE searched)
       /\ helper' = [helper EXCEPT ![h] = [w |-> "", sign |-> 0, ready |-> FALSE, seen |-> 0]]
       /\ UNCHANGED <<log, decided, sent, writer, plan>>
HelperDie(h) ==
    /\ ~Idle(h) /\ helper' = [helper EXCEPT ![h] = [w |-> "", sign |-> 0, ready |-> FALSE, seen |-> 0]]
    /\ UNCHANGED <<log, registered, expired, decided, sealed, sent, writer, plan, searched>>

(* Each record is searched once. If its writer is not registered and its rows do not count as decided, it is registered
   again with an expired lease. *)
Search ==
    /\ searched < Len(log) /\ searched' = searched + 1
    /\ LET w == log[searched + 1].w
           isLate == w \notin registered /\ Count(w) # Expected(w) /\ (w \notin decided \/ w \in sealed)
       IN IF isLate /\ Bug # "no search" /\ (log[searched + 1].sign = 2 \/ Bug # "a search of rows only")
          THEN registered' = registered \cup {w} /\ expired' = expired \cup {w}
          ELSE UNCHANGED <<registered, expired>>
    /\ UNCHANGED <<log, decided, sealed, sent, writer, plan, helper>>

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
(* A snapshot has decided epochs only. *)
InvSealed == sealed \subseteq decided
=============================================================================
